"""Tables and plots from the ledger and the run folders. Reads results; computes none."""

from puridiver.report.plot import plot_runs
from puridiver.report.table import FORMATS, insert_between_markers, summarise

__all__ = ["FORMATS", "insert_between_markers", "plot_runs", "summarise"]
