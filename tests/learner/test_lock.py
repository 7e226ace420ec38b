"""The fair lock: order, reentrance, and that no interrupt at any bytecode leaves it held."""

from __future__ import annotations

import contextlib
import ctypes
import random
import threading
from collections.abc import Callable
from time import monotonic, sleep

import pytest

from puridiver.learner.lock import FairLock


def until(condition: Callable[[], bool]) -> None:
    end = monotonic() + 60
    while not condition():
        assert monotonic() < end
        sleep(0.001)


def in_queue(lock: FairLock, n: int) -> bool:
    """Whether so many turns stand in line, the one that holds the lock included."""
    found, turn = 1, lock._last
    while turn.before is not None:
        found, turn = found + 1, turn.before
    return found == n


def test_threads_get_it_in_the_order_in_which_they_asked() -> None:
    lock, order, threads = FairLock(), list[int](), list[threading.Thread]()

    def hold() -> None:
        for number in range(6):
            threads.append(threading.Thread(target=lock.run, args=(order.append, number)))
            threads[-1].start()
            until(lambda: in_queue(lock, number + 2))  # noqa: B023
        assert order == []

    lock.run(hold)
    lock.run(order.append, 6)  # who asks again at once is last
    for thread in threads:
        thread.join()
    assert order == list(range(7))


def test_its_owner_may_take_it_again_and_an_error_releases_it() -> None:
    lock = FairLock()
    assert lock.run(lock.run, lambda: 3) == 3
    with pytest.raises(KeyError):
        lock.run({}.__getitem__, "nothing")
    other = threading.Thread(target=lock.run, args=(int,))
    other.start()
    other.join(60)
    assert not other.is_alive()


class Interrupted(BaseException):
    """As KeyboardInterrupt, but for any thread."""


def _critical(gate: threading.Lock) -> None:
    assert not gate.locked(), "two threads are inside"
    with gate:  # whose release no interrupt can skip
        sum(range(20))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thousands_of_interrupts_at_any_bytecode_leave_it_free() -> None:
    """Interrupts may come while a thread waits, enters, is inside, or leaves."""
    lock, stop, draw = FairLock(), threading.Event(), random.Random(0)
    gate, caught, failed = threading.Lock(), list[int](), list[object]()

    def work() -> None:
        while not stop.is_set():
            try:
                lock.run(_critical, gate)
            except Interrupted:
                caught.append(1)
            except AssertionError as error:
                failed.append(error)

    def worker() -> None:
        while not stop.is_set():
            with contextlib.suppress(Interrupted):  # between two calls
                work()

    threads = [threading.Thread(target=worker, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    end = monotonic() + 60
    while len(caught) < 3_000 and monotonic() < end:
        target = draw.choice(threads)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target.ident or 0), ctypes.py_object(Interrupted))
        sleep(draw.random() * 1e-4)
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert failed == []
    assert len(caught) > 100  # as many as a busy machine had time for
    free = threading.Event()
    waiting = threading.Thread(target=lock.run, args=(free.set,), daemon=True)
    waiting.start()
    assert free.wait(60)
