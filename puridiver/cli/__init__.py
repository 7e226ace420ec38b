"""The command line: a thin layer over the library. `main` is the entry point."""

from puridiver.cli.main import main

__all__ = ["main"]
