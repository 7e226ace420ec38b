"""Seconds by phase of a run."""

from __future__ import annotations

import time

from puridiver.runtime.device import Runtime


class Stopwatch:
    """Counts the seconds of one phase at a time; no phase pays for another's work that the device still does.

    Examples
    --------
    >>> from puridiver.runtime.device import choose_runtime
    >>> clock = Stopwatch(choose_runtime("cpu"))
    >>> clock.switch("observe")
    >>> clock.stop()
    >>> list(clock.seconds)
    ['observe']
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.seconds: dict[str, float] = {}
        self._phase: str | None = None
        self._since = 0.0

    def switch(self, phase: str | None) -> None:
        """End the phase that runs and begin another (None: begin none). Costs nothing within one phase."""
        if phase == self._phase:
            return
        self.runtime.wait()
        now = time.perf_counter()
        if self._phase is not None:
            self.seconds[self._phase] = self.seconds.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = phase, now

    def stop(self) -> None:
        self.switch(None)

    def state(self) -> dict[str, float]:
        """The seconds of the phases so far; the one that runs counts up to its last switch."""
        return dict(self.seconds)

    def load_state(self, seconds: dict[str, float]) -> None:
        """Go on counting from there."""
        self.seconds = dict(seconds)
