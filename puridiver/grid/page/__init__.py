"""The results page: the tables of the paper, verdicts on them and every other run, made from a ledger alone."""
