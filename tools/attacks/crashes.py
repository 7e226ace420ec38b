"""Attacks by circumstance: kills, interrupts, threads, full and read-only disks."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from attacks.cases import (
    ATTACKS,
    AUDIT,
    BATCH,
    LABELS,
    RUN,
    SECONDS,
    Attack,
    Case,
    attack,
    contents,
    copied,
    digest,
    fresh,
    require,
    shared_learner,
    yard,
)
from puridiver import BusyError, ConsolidatingError, Learner, PuridiverError
from puridiver.cli.app import main as command
from puridiver.learner import storage

NOBODY = 65534  # a user without rights
SAME_BITS = "resumed, it ends in the bits of a run that nobody stopped"


def child(work: Callable[[], int], before: Callable[[], object] = lambda: None, seconds: float | None = None) -> int:
    """The exit status of some work in a process of its own, killed after some seconds; negative for a signal."""
    pid = os.fork()
    if pid == 0:
        null, status = os.open(os.devnull, os.O_RDWR), 99
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        with contextlib.suppress(BaseException):
            before()
            status = work()
        os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def count_operations(log: Path, folder: Path, die_at: int | None = None) -> None:
    """Note each change of a file in a folder, before it happens, and die at one of them."""
    notes, here, done = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), str(folder), 0
    changes = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal done
        reads = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR) == 0
        if event in changes and not reads and str(arguments[0]).startswith(here):
            done += 1
            os.write(notes, b".")
            if done == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def work_in(kind: str, out: Path) -> Callable[[], int]:
    words = [*RUN, "--resume"] if kind == "run" else [*AUDIT, f"{yard()}/arrays.npz"]
    return lambda: command([*words, "--out", str(out)])


def events(out: Path) -> str:
    """The events of a run, without times."""
    return re.sub(r'"(seconds|started)": [^,}]*', "", (out / "metrics.jsonl").read_text())


def result(out: Path) -> Any:
    """What a finished run or audit leaves, without times."""
    if (out / "audit.json").exists():
        return [(out / name).read_bytes() for name in ("labels.csv", "suspects.csv", "cleanlab.npz")]
    settings, tensors = storage.load(out / "learner")
    del settings["seconds"]
    return [events(out), settings, {name: value.numpy().tobytes() for name, value in tensors.items()}]


@cache
def whole(kind: str) -> tuple[Any, int, float]:
    """What uninterrupted work leaves, its file operations and its seconds."""
    place, started = yard() / "whole" / kind, time.monotonic()
    place.mkdir(parents=True)
    status = child(work_in(kind, place / "out"), lambda: count_operations(place.with_suffix(".log"), place))
    require(status == 0, "the work failed")
    return result(place / "out"), place.with_suffix(".log").stat().st_size, time.monotonic() - started


def killed_and_resumed(kind: str, case: Case) -> None:
    """Kill the work once or twice, at a file operation or at any time, then let it come to its end."""
    expected, operations, seconds = whole(kind)
    work = work_in(kind, case.folder / "out")
    for _ in range(1 + case.below(2)):
        if case.chance(0.7):
            hook = partial(count_operations, case.folder / "log", case.folder / "out", 1 + case.below(operations))
            child(work, hook)
        else:
            child(work, seconds=float(case.rng.uniform(0, seconds)))
    require(child(work) == 0, "it could not be resumed")
    require(result(case.folder / "out") == expected, "it ended in other bits")


ATTACKS["killed_runs"] = Attack(partial(killed_and_resumed, "run"), 70, SAME_BITS)
ATTACKS["killed_audits"] = Attack(
    partial(killed_and_resumed, "audit"), 30, "repeated, it ends in the bits of an audit that nobody stopped"
)


@attack(100, "the folder holds the old save or the new one")
def killed_saves(case: Case) -> None:
    old, new, folder = fresh(1), fresh(2), case.folder / "learner"
    old.save(folder)
    child(lambda: bool(new.save(folder)) - 1, partial(count_operations, case.folder / "log", folder, 1 + case.below(8)))
    require(digest(Learner.load(folder, "cpu")) in (digest(old), digest(new)), "the save is neither old nor new")
    new.save(folder)
    require(digest(Learner.load(folder, "cpu")) == digest(new), "the next save failed")


def in_threads(works: Sequence[Callable[[], Any]]) -> None:
    """Do all at once; a thread's error or hang is an error."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], Any]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS / 2)
        require(not thread.is_alive(), "a thread waits for ever")
    if errors:
        raise errors[0]


@attack(400, "the learner answers, learns and saves afterwards")
def interrupts(case: Case) -> None:
    learner = shared_learner()[0]
    shared_learner.cache_clear()
    calls: list[Callable[[], Any]] = [
        lambda: learner.predict(BATCH), lambda: learner.observe(BATCH, LABELS), lambda: learner.consolidate(1),
        lambda: learner.save(case.folder / "a"), learner.audit, lambda: learner.correct({0: "dog"}, images=BATCH[:1]),
        lambda: learner.forget([learner.seen - 1]), lambda: learner.resize(int(case.rng.integers(4, 12))),
        learner.snapshot,
    ]  # fmt: skip
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_VIRTUAL, float(case.rng.exponential(0.005)) + 1e-6)
        while True:
            case.one(calls)()
    in_threads([lambda: learner.observe(BATCH, LABELS) and learner.predict(BATCH)])
    learner.save(case.folder / "b")
    require(digest(Learner.load(case.folder / "b", "cpu")) == digest(learner), "the save differs")


@attack(30, "no deadlock, no lost sample, and the save loads")
def threads(case: Case) -> None:
    learner, seen = fresh(), list[int]()
    calls: list[Callable[[], Any]] = [
        lambda: seen.extend(learner.observe(BATCH, LABELS).arrivals), lambda: learner.predict(BATCH), learner.audit,
        lambda: learner.consolidate(1), lambda: learner.save(case.folder / "a"), lambda: learner.correct({0: "dog"}),
        learner.status, lambda: learner.snapshot().predict(BATCH), lambda: learner.resize(6),
        lambda: learner.forget([learner.seen - 1]), lambda: learner.correct({0: "dog"}, images=BATCH[:1]),
    ]  # fmt: skip

    def work(chosen: Sequence[int]) -> None:
        for number in chosen:
            with contextlib.suppress(ConsolidatingError, BusyError):
                calls[number]()

    in_threads([partial(work, plan.tolist()) for plan in case.rng.integers(len(calls), size=(4, 8))])
    require(sorted(seen) == list(range(12, 12 + len(seen))) and learner.seen == 12 + len(seen), "samples were lost")
    learner.save(case.folder / "a")
    require(digest(Learner.load(case.folder / "a", "cpu")) == digest(learner), "the save differs")


@contextlib.contextmanager
def small_disk(place: Path, kilobytes: int) -> Iterator[Callable[[], object]]:
    """A full disk: a small tmpfs, or where that is not allowed, a limit on the size of a child's files."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(place)]
    if os.getuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            yield lambda: None
        finally:
            subprocess.run(["umount", str(place)], check=True)
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes << 10, kilobytes << 10))


@attack(40, f"an exit code that says so; {SAME_BITS}")
def full_disks(case: Case) -> None:
    expected, out, copy = whole("run")[0], case.folder / "disk" / "out", case.folder / "out"
    with small_disk(case.folder / "disk", 4 + case.below(1_200)) as before:
        status = child(work_in("run", out), before)
        require(status in (0, 1, 2), f"it ended with {status}")
        require(status != 0 or result(out) == expected, "it says that all went well")
        if out.exists():
            shutil.copytree(out, copy)
    require(child(work_in("run", copy)) == 0, "it could not be resumed")
    require(result(copy) == expected, "it ended in other bits")


@attack(30, "refused with exit code 2, and nothing changes")
def read_only_disks(case: Case) -> None:
    out, learner = copied(case, "run/config.json").parent, fresh()
    for path in (case.folder, out, *out.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = contents(out)

    def lowered() -> None:
        if os.getuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    def save() -> int:
        with contextlib.suppress(OSError, PuridiverError):
            learner.save(out / "learner")
            return 0
        return 2

    new = ["--out", str(case.folder / "new")]
    works = [[*RUN, "--force", "--out", str(out)], [*RUN, *new], [*AUDIT, f"{yard()}/arrays.npz", *new], None]
    words = case.one([*works, ["report", str(out)]])
    status = child(lambda: command(words) if words else save(), lowered)
    case.folder.chmod(0o755)
    require(status == 2, f"{words} ended with {status}")
    require(contents(out) == before, "something changed")
