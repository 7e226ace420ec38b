from __future__ import annotations

import threading
import time

import pytest

from puridiver.learner.turns import Turns


def waiting(turns: Turns, n: int) -> None:
    """Until so many threads stand in line."""
    end = time.monotonic() + 20
    while len(turns._waiting) < n:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_threads_get_it_in_the_order_in_which_they_asked() -> None:
    turns, order, threads = Turns(), list[int](), list[threading.Thread]()

    def take(number: int) -> None:
        with turns:
            order.append(number)

    with turns:
        for number in range(8):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            waiting(turns, number + 1)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_who_asks_again_at_once_lets_those_that_wait_go_first() -> None:
    turns, order = Turns(), list[str]()

    def take() -> None:
        with turns:
            order.append("other")

    other = threading.Thread(target=take)
    with turns:
        other.start()
        waiting(turns, 1)
    with turns:
        order.append("again")
    other.join()
    assert order == ["other", "again"]


def test_its_owner_may_take_it_again() -> None:
    turns = Turns()
    with turns, turns:
        assert turns._depth == 2
    assert turns._owner is None


def test_it_is_let_go_by_an_error() -> None:
    turns = Turns()
    with pytest.raises(KeyError), turns:
        raise KeyError
    with turns:
        pass


def test_who_is_stopped_while_waiting_leaves_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, done = Turns(), threading.Event()

    def hold() -> None:
        with turns:
            held.set()
            done.wait()

    held = threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()

    def stopped(timeout: float | None = None) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(turns._changed, "wait", stopped)
        with pytest.raises(KeyboardInterrupt), turns:
            pass
    done.set()
    holder.join()
    with turns:  # nobody waits for the one that left
        assert not turns._waiting
