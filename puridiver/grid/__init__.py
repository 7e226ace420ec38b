"""Many runs at once: the paper's tables and figures as grids of cells, their engines, and the tables made of them."""
