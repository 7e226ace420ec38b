"""A lock that threads get in the order in which they asked, and that no interrupt can leave held."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])


class _Turn:
    """One thread's place in the queue: `held` is locked from before it joins until it is done."""

    def __init__(self) -> None:
        self.held = threading.Lock()
        self.inside = threading.Lock()  # the same, but nobody waits for it: it tells whether the turn goes on
        self.before: _Turn | None = None  # None once the turn has come
        self.thread = threading.get_ident()


class FairLock:
    """A reentrant lock, first come, first served: `lock.run(function, ...)` calls a function while holding it.

    Python's own lock goes to whoever is quickest, so a thread that trains epoch after epoch would keep others out.

    Ctrl-C may raise an exception between any two bytecodes. So each turn is a plain `threading.Lock` in a `with`
    statement: its release is C code that no exception can skip. A thread waits for the turn before its own. If that
    one was interrupted while it waited, the thread goes on to the turn before that.
    """

    def __init__(self) -> None:
        self._queue = threading.Lock()
        self._last = self._owner = _Turn()

    def run(self, function: Callable[..., Result], *args: Any, **kwargs: Any) -> Result:
        """Call a function when the turn has come; at once if this thread holds the lock already."""
        owner = self._owner
        if owner.thread == threading.get_ident() and owner.inside.locked():
            return function(*args, **kwargs)
        turn = _Turn()
        with turn.inside, turn.held:
            with self._queue:
                turn.before = self._last
                self._last = turn
            before: _Turn | None = turn.before
            while before is not None:
                with before.held:
                    pass
                before = before.before
            turn.before = None
            self._owner = turn
            return function(*args, **kwargs)


def exclusive(method: Method) -> Method:
    """A method of an object with a `lock` that runs while holding it."""

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.lock.run(method, self, *args, **kwargs)

    return locked  # type: ignore[return-value]
