"""The fair lock: order, reentrance, and that no interrupt leaves it held."""

from __future__ import annotations

import ctypes
import random
import signal
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


def test_ctrl_c_at_any_moment_leaves_it_free() -> None:
    lock, before, chance = FairLock(), signal.signal(signal.SIGALRM, signal.default_int_handler), random.Random(0)

    def use_for(seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            lock.run(int)

    for _ in range(200):
        with pytest.raises(KeyboardInterrupt):
            use_for(chance.uniform(1e-4, 1e-3))
        other = threading.Thread(target=lock.run, args=(int,), daemon=True)
        other.start()
        other.join(60)
        assert not other.is_alive()
    signal.signal(signal.SIGALRM, before)


class Interrupted(BaseException):
    """As KeyboardInterrupt, but for any thread."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_who_is_interrupted_while_waiting_does_not_hold_up_those_behind() -> None:
    lock, order = FairLock(), list[int]()
    threads = [threading.Thread(target=lock.run, args=(order.append, number), daemon=True) for number in range(3)]

    def hold() -> None:
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda: in_queue(lock, number + 2))  # noqa: B023
        for thread in threads[:2]:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Interrupted))

    lock.run(hold)
    for thread in threads:
        thread.join(60)
    assert order == [2]
    assert lock.run(lambda: 3) == 3
