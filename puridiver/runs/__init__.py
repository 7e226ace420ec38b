"""One run: its config, its loop, its folder and checkpoint, and the ledger of finished runs."""
