"""The command line: a thin layer over the library, one file a command. `main` is the entry point."""

from puridiver.cli.app import main

__all__ = ["main"]
