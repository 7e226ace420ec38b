"""Tables, figures and pages from the ledger and the run folders. Reads results; computes none."""

from puridiver.report.table import FORMATS, insert_between_markers, summarise

__all__ = ["FORMATS", "insert_between_markers", "summarise"]
