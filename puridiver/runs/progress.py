"""What a run tells while it goes on."""

from __future__ import annotations

from typing import Any


class Progress:
    """Hears how far a run is. This one shows nothing; subclasses do."""

    def start(self, total: int) -> None: ...
    def advance(self, amount: int, text: str) -> None: ...
    def event(self, event: dict[str, Any]) -> None: ...
