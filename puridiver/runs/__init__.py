"""One run: its config, its loop, its folder and checkpoint, and the ledger of finished runs."""

from typing import Any


class Progress:
    """Receives the progress of a run. This one shows nothing; subclasses do."""

    def start(self, total: int, done: int = 0) -> None: ...
    def advance(self, amount: int, text: str) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...
