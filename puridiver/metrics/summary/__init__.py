"""The metrics that sum up a run: every `Metric` in a file of this folder."""
