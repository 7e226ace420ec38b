"""Load a service, kill it, account for every acknowledged sample, and write the figures as a table of docs/service.md.

python tools/load_test.py                                   all three parts, about 75 minutes
python tools/load_test.py kills --kills 200                 kill -9 under load; compare with a service never killed
python tools/load_test.py rate double --rate 48 --minutes 30
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import multiprocessing
import os
import platform
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from puridiver import Learner
from puridiver.learner import storage
from puridiver.runtime.device import steady_threads
from puridiver.service.client import Client, ServiceError
from puridiver.service.engine import Engine
from puridiver.service.intake import Policy

ROOT = Path(__file__).parents[1]
PAGE, RECORD = ROOT / "docs" / "service.md", ROOT / "experiments" / "serving" / "load.json"
BEGIN, END = "<!-- load test: begin -->\n", "<!-- load test: end -->"
BATCH, CLASSES = 16, 10
# Of a learner that learns fast, so that kills hit every moment of its life; and of an ordinary one.
SIZES = {"kills": (12, 100, Policy(160, epochs=7, checkpoint_seconds=1)), "rate": (28, 500, Policy(1000, epochs=15))}


def batch(number: int, size: int) -> tuple[np.ndarray, list[str]]:
    """Batch `number` of the stream: striped images, every fifth label wrong."""
    rng = np.random.default_rng(number)
    classes = rng.integers(CLASSES, size=BATCH)
    images = rng.integers(90, size=(BATCH, size, size, 3)).astype(np.uint8)
    for image, k in zip(images, classes, strict=True):
        image[k * size // CLASSES : (k + 1) * size // CLASSES + 1, :, k % 3] += 140
    given = np.where(rng.random(BATCH) < 0.2, rng.integers(CLASSES, size=BATCH), classes)
    return images, [f"class {k}" for k in given]


# Services are processes forked from one that has imported torch, which takes most of the time of a start.
SPAWN = multiprocessing.get_context("forkserver")


def serve(words: list[str]) -> None:
    from puridiver.cli import main

    raise SystemExit(main(words))


class Service:
    """The service as a process."""

    def __init__(self, folder: Path, size: int, memory: int, policy: Policy) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url, self.folder = f"http://127.0.0.1:{self.port}", folder
        flags = ["--port", self.port, "--every", policy.every, "--epochs", policy.epochs, "--device", "cpu"]
        flags += ["--checkpoint-seconds", policy.checkpoint_seconds]
        self.command = ["serve", str(folder), *map(str, flags)]
        self.new = ["--image-size", str(size), "--memory", str(memory)]
        self.process: Any = None

    def start(self) -> float:
        """Start it; returns the seconds until it answers."""
        begin = time.perf_counter()
        new = [] if (self.folder / "snapshots").exists() else self.new
        self.process = SPAWN.Process(target=serve, args=([*self.command, *new],))
        self.process.start()
        with Client(self.url, patience=120) as client:
            client._ask("GET", "/healthz")
        return time.perf_counter() - begin

    def end(self, how: signal.Signals) -> None:
        os.kill(self.process.pid, how)
        self.process.join()

    def memory(self) -> float:
        """MiB that the process holds."""
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
            return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024
        return float("nan")


class Load:
    """Sends batches and asks for predictions, each in a thread, and notes what came of it."""

    def __init__(self, service: Service, size: int, rate: float, first: int = 0) -> None:
        self.service, self.size, self.rate, self.next = service, size, rate, first
        self.acknowledged: dict[int, int] = {}  # the first arrival of each batch
        self.refused, self.problems = 0, list[BaseException]()
        self.observed: list[float] = []  # seconds
        self.predicted: list[tuple[float, bool]] = []  # seconds, and whether it trained
        self.held: list[float] = []  # MiB, every second
        self.training, self._stop = False, threading.Event()
        work = (self._observe, self._predict, self._watch)
        self._threads = [threading.Thread(target=self._guarded, args=[each]) for each in work]

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.problems.append(error)
            self._stop.set()

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.problems:
            raise self.problems[0]

    def _try(self, client: Client, work: Any) -> Any:
        """Its answer; None where it was refused or the service is not there."""
        try:
            return work(client)
        except ServiceError as error:
            if error.status not in (409, 429, 503):
                raise
            self.refused += error.status == 429
            self._stop.wait(1.0 if error.status == 429 else 0.2)
        except (OSError, http.client.HTTPException):  # it was killed
            self._stop.wait(0.1)
        return None

    def _observe(self) -> None:
        due = time.monotonic()
        with Client(self.service.url, patience=0) as client:
            while not self._stop.is_set():
                images, labels = batch(self.next, self.size)
                begin, number = time.perf_counter(), self.next
                answer = self._try(client, lambda c: c.observe(images, labels, key=f"batch-{number}"))  # noqa: B023
                if answer is None:
                    continue  # the same batch with the same key, until it is acknowledged
                self.observed.append(time.perf_counter() - begin)
                self.acknowledged[number] = answer["first"]
                self.next += 1
                due = max(due + BATCH / self.rate, time.monotonic() - 5)
                self._stop.wait(max(0.0, due - time.monotonic()))

    def _predict(self) -> None:
        images = batch(1 << 30, self.size)[0]
        with Client(self.service.url, patience=0) as client:
            while not self._stop.wait(0.1):
                begin = time.perf_counter()
                if self._try(client, lambda c: c.predict(images)) is not None:
                    self.predicted.append((time.perf_counter() - begin, self.training))

    def _watch(self) -> None:
        with Client(self.service.url, patience=0) as client:
            while not self._stop.wait(1.0):
                self.held.append(self.service.memory())
                now = self._try(client, lambda c: c.status())
                self.training = bool(now and now["consolidation"])

    def figures(self) -> dict[str, Any]:
        ms = {"observe": self.observed, "predict": [t for t, _ in self.predicted]}
        ms["predict while training"] = [t for t, training in self.predicted if training]
        quarters = np.array_split(np.array(self.held)[np.isfinite(self.held)], 4)
        return {
            "acknowledged": BATCH * len(self.acknowledged), "refused": self.refused,
            "ms": {name: (np.quantile(t, [0.5, 0.99]) * 1e3).round(1).tolist() for name, t in ms.items() if t},
            "MiB": [round(float(quarter.mean())) for quarter in quarters if len(quarter)],
        }  # fmt: skip


def drained(service: Service) -> dict[str, Any]:
    """The status of a service that has learnt everything."""
    with Client(service.url, patience=600) as client:
        while (now := client.status())["queue"]["records"]:
            time.sleep(0.5)
            assert not now["failure"], now["failure"]
        return now


def lost(acknowledged: dict[int, int], seen: int) -> int:
    """Samples that were acknowledged and are not in the stream, or are there twice."""
    places = sorted(acknowledged.values())
    return abs(seen - BATCH * len(places)) + BATCH * sum(
        b - a != BATCH for a, b in itertools.pairwise([-BATCH, *places])
    )


def differing(killed: Path, acknowledged: dict[int, int], folder: Path) -> list[str]:
    """What of a killed service's state differs in a bit from that of a service with the same batches and no kills."""
    size, memory, policy = SIZES["kills"]
    twin = Engine(folder, lambda: Learner(None, (size, size, 3), memory, device="cpu"), policy, "cpu")
    with steady_threads(torch.device("cpu"), twin.learner.network):
        twin.start()
        for number in sorted(acknowledged, key=acknowledged.__getitem__):
            twin.observe(*batch(number, size), None, None)
            assert twin.waiting < 1_000 or twin.drain()
        assert twin.drain()
        twin.close()
    states = [storage.load(sorted((each / "snapshots").iterdir())[-1]) for each in (killed, folder)]
    (settings, tensors), (own_settings, own) = states
    names = [name for name in own_settings if name != "seconds" and own_settings[name] != settings[name]]
    return names + [
        name for name in own.keys() | tensors.keys() if not torch.equal(_bits(own[name]), _bits(tensors[name]))
    ]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """As whole numbers, among which nan equals itself."""
    return tensor.view(torch.int32) if tensor.dtype == torch.float32 else tensor


def kills(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    size, memory, policy = SIZES["kills"]
    service, rng, down = Service(place / "killed", size, memory, policy), np.random.default_rng(0), []
    service.start()
    begin = time.monotonic()
    with Load(service, size, 60) as load:
        for number in range(args.kills):
            time.sleep(rng.uniform(0.0, args.alive))
            service.end(signal.SIGKILL)
            down.append(service.start())
            if number % 10 == 9:
                print(f"{number + 1} kills, {BATCH * len(load.acknowledged):,} samples acknowledged", flush=True)
    seconds = time.monotonic() - begin
    seen = drained(service)["samples_seen"]
    service.end(signal.SIGTERM)
    others = differing(place / "killed", load.acknowledged, place / "twin")
    return {
        "kills": args.kills, "seconds": round(seconds), **load.figures(), "lost": lost(load.acknowledged, seen),
        "differing": others, "restart_seconds": round(float(np.median(down)), 1),
    }  # fmt: skip


def at_rate(args: argparse.Namespace, place: Path, times: int) -> dict[str, Any]:
    """So many times the rate; then a kill, and everything that was acknowledged must be there."""
    size, memory, policy = SIZES["rate"]
    service = Service(place / "rate", size, memory, policy)
    service.start()
    with Client(service.url) as client:
        before = client.status()["samples_seen"] + client.status()["queue"]["samples"]
    begin = time.monotonic()
    with Load(service, size, times * args.rate, before // BATCH) as load:
        time.sleep(args.minutes * 60)
    seconds = time.monotonic() - begin
    service.end(signal.SIGKILL)
    service.start()
    now = drained(service)
    service.end(signal.SIGTERM)
    firsts = {number: first - before for number, first in load.acknowledged.items()}
    return {
        "kills": 1, "seconds": round(seconds), "offered": times * args.rate, **load.figures(),
        "lost": lost(firsts, now["samples_seen"] - before), "consolidations": now["consolidations"],
    }  # fmt: skip


PARTS = {
    "kills": kills,
    "rate": lambda args, place: at_rate(args, place, 1),
    "double": lambda args, place: at_rate(args, place, 2),
}
TITLES = {"kills": "killed again and again", "rate": "a rate that it holds", "double": "twice that rate"}


def table(record: dict[str, Any]) -> str:
    """The figures as Markdown."""
    parts = [name for name in PARTS if name in record]
    rows = [["", *(TITLES[name] for name in parts)], ["---"] * (len(parts) + 1)]

    def add(title: str, cell: Any) -> None:
        cells = [cell(record[name]) for name in parts]
        rows.append([title, *(str(each) if each not in (None, "") else "-" for each in cells)])

    sizes = [SIZES["kills" if name == "kills" else "rate"] for name in parts]
    rows.append(["colour images, memory", *(f"{side} px, {memory}" for side, memory, _ in sizes)])
    add("minutes", lambda r: round(r["seconds"] / 60, 1))
    add("`kill -9`", lambda r: r["kills"])
    add("samples a second, offered", lambda r: r.get("offered"))
    add("samples a second, acknowledged", lambda r: round(r["acknowledged"] / r["seconds"], 1))
    add("samples acknowledged", lambda r: f"{r['acknowledged']:,}")
    add("of these lost or doubled", lambda r: r["lost"])
    add("same bits as a service never killed", lambda r: {None: None, 0: "yes"}.get(_count(r), "no"))
    add("answers 429", lambda r: r["refused"])
    for name in ("observe", "predict", "predict while training"):
        add(f"`{name.split(' ')[0]}`{name.removeprefix(name.split(' ')[0])}, 16 images: median, 99th percentile (ms)",
            lambda r, name=name: ", ".join(map(str, r["ms"].get(name, []))))  # fmt: skip
    add("memory of the process, mean of each quarter of the time (MiB)", lambda r: ", ".join(map(str, r["MiB"])))
    add("seconds from a kill to the next answer, imports left out", lambda r: r.get("restart_seconds"))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, "", f"Measured on {record['machine']}."]) + "\n"


def _count(part: dict[str, Any]) -> int | None:
    return len(part["differing"]) if "differing" in part else None


def write(record: dict[str, Any], place: Path, page: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(record, indent=1) + "\n")
    text = page.read_text()
    page.write_text(text.partition(BEGIN)[0] + BEGIN + table(record) + END + text.partition(END)[2])


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--alive", type=float, default=3.0, help="most seconds between start and kill")
    parser.add_argument("--rate", type=float, default=48.0, help="samples a second")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--machine", default=f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args(argv)
    SPAWN.set_forkserver_preload(["puridiver.service.app", "puridiver.cli.serve", "uvicorn"])
    record = json.loads(args.record.read_text()) if args.record.exists() else {}
    record["machine"] = args.machine
    with tempfile.TemporaryDirectory(prefix="puridiver-load-") as folder:
        for part in args.parts or PARTS:
            record[part] = PARTS[part](args, Path(folder))
            print(part, json.dumps(record[part]), flush=True)
            write(record, args.record, args.page)
    return int(any(record[part]["lost"] or record[part].get("differing") for part in args.parts or PARTS))


if __name__ == "__main__":
    raise SystemExit(main())
