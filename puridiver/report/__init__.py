"""Figures, run pages and audit pages. Reads results; computes none."""
