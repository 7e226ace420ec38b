"""How the cells of a grid are run: threads on one GPU, processes on a CPU, or a Ray cluster. One file an engine."""
