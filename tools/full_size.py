"""Run WebVision and Food-101N at full size on made images: seconds by phase, images a second, host and GPU memory.

    python tools/full_size.py webvision food101n --out experiments/speed --recipe official --epochs 15
    python tools/full_size.py food101n --train 606 --test 101 --recipe official --epochs 1 --image-size 66

The images lie in the published layout, a fifth of their labels are wrong, and the stream comes from split files in the
published form. Options that this program does not know go to `puridiver run`, which it starts as users do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from bench import Figure, write_record
from PIL import Image

from puridiver.data.sets.web import Food101N, WebImages, WebVision
from puridiver.runtime.device import cores
from puridiver.streams.tasks import blurry_tasks

SEED, WRONG_SHARE, MINOR_SHARE = 1, 0.2, 0.1
SHORT_SIDE, STRETCH = (224, 301), 1.6  # px; the longer side is up to so many times as long
OTHERS = 950  # classes of WebVision beyond the first 50; their files stand in its lists and are not read
EVERY = 1.0  # seconds between two looks at the memory
FACTS = ("recipe", "device", "precision", "versions", "commit", "command", "network", "memory", "epochs",
         "stream_noise", "task_accuracy", "task_purity")  # fmt: skip


class Made(NamedTuple):
    """Made files, train files first; true and given labels are class ids."""

    paths: list[str]  # below the folder of the data set
    true: np.ndarray
    given: np.ndarray
    n_train: int

    @property
    def n_test(self) -> int:
        return len(self.paths) - self.n_train


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", choices=LAYOUTS)
    parser.add_argument("--train", type=int, help="train files (default: as many as published)")
    parser.add_argument("--test", type=int, help="test files (default: as many as published)")
    parser.add_argument("--out", help="write records to FOLDER/<date>-<device>/")
    args, settings = parser.parse_known_args(words)
    for name in args.data:
        with tempfile.TemporaryDirectory() as folder:
            record, figures = measured(LAYOUTS[name](), Path(folder), args.train, args.test, settings)
        print(f"{record['command']}, {record['device']}, {record['precision']}")
        for figure in figures:
            print(figure.line())
        if args.out:
            print(write_record(args.out, {**record, "figures": [vars(figure) for figure in figures]}), flush=True)
    return 0


def measured(
    layout: Layout, root: Path, n_train: int | None, n_test: int | None, settings: list[str]
) -> tuple[dict[str, Any], list[Figure]]:
    """Make the files and run on them; the facts of a record, and its figures."""
    begun, name = time.time(), layout.data_set.name
    made = make(layout, root, n_train or layout.data_set.counts[0][0], n_test or layout.data_set.counts[0][1])
    words = ["--data", name, "--data-root", str(root), "--stream", f"official:none:{SEED}", "--splits", str(root)]
    command = [sys.executable, "-m", "puridiver", "run", *words, *settings, "--out", str(root / "run"), "--json"]
    watch, started = Watch(), time.time()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        watch.follow(program.pid)
        told = program.communicate()[0]
    ended = time.time()
    if program.returncode:
        raise SystemExit(f"puridiver run ended with code {program.returncode}")
    summary = json.loads(told)
    decoded = next(root.glob("image-cache/*/facts.json")).stat().st_mtime  # written last
    events = [json.loads(line)["event"] for line in (root / "run" / "metrics.jsonl").read_text().splitlines()]
    figures = [
        one("make the image files", started - begun, "s"),
        one("start, and decode all files into the cache", decoded - started, "s"),
        *(one(f"run: {phase}", seconds, "s") for phase, seconds in summary["phase_seconds"].items()),
        one("run, start to end", ended - started, "s"),
        one("decode", len(made.paths) / (decoded - started), "images/s"),
        *speeds(made, summary, events.count("anytime") + events.count("task")),
        *watch.figures(decoded),
    ]
    files = {"train_files": made.n_train, "test_files": made.n_test, "image_size": summary["image_size"]}
    return {"size": name, "parts": ["full size"], **files, **{key: summary[key] for key in FACTS}}, figures


def one(what: str, value: float, unit: str) -> Figure:
    return Figure(what, value, value, value, 1, unit)


def speeds(made: Made, summary: dict[str, Any], evaluations: int) -> Iterator[Figure]:
    """Images a second of each phase."""
    memory_images = summary["epochs"] * summary["memory"] * len(summary["task_accuracy"])
    images = {"observe": made.n_train, "consolidate": memory_images, "evaluate": made.n_test * evaluations}
    for phase, count in images.items():
        if count:
            yield one(phase, count / summary["phase_seconds"][phase], "images/s")


# Files -------------------------------------------------------------------------------------------------------------


class Layout:
    """How the home of a data set publishes it."""

    data_set: ClassVar[type[WebImages]]
    prefix: ClassVar[str]  # of split files
    classes: ClassVar[tuple[str, ...]]

    def path(self, number: int, label: int, is_test: bool) -> str:
        raise NotImplementedError

    def write_lists(self, folder: Path, made: Made) -> None:
        raise NotImplementedError

    def row(self, made: Made, i: int) -> dict[str, Any]:
        """A row of a split file, without the number of the label."""
        return {"klass": self.classes[made.given[i]], "file_name": made.paths[i]}


class WebVisionLayout(Layout):
    data_set, prefix = WebVision, "WebVision-V1-2"
    classes = tuple(f"n{number:08d}" for number in range(50))

    def path(self, number: int, label: int, is_test: bool) -> str:
        return f"val_images_256/val{number:06d}.jpg" if is_test else f"google/q{label:04d}/{number:06d}.jpg"

    def write_lists(self, folder: Path, made: Made) -> None:
        lines = [f"{path.removeprefix('val_images_256/')} {c}" for path, c in zip(made.paths, made.given, strict=True)]
        others = [f"google/q{50 + i % OTHERS:04d}/{i}.jpg {50 + i % OTHERS}" for i in range(14 * made.n_train)]
        write_lines(folder / "info" / "synsets.txt", [f"n{number:08d} thing {number}" for number in range(50 + OTHERS)])
        write_lines(folder / "info" / "train_filelist_google.txt", lines[: made.n_train] + others)
        write_lines(folder / "info" / "val_filelist.txt", lines[made.n_train :])


class Food101NLayout(Layout):
    data_set, prefix = Food101N, "Food-101N"
    classes = tuple(f"dish_{number}" for number in range(101))

    def path(self, number: int, label: int, is_test: bool) -> str:
        return f"images/{self.classes[label]}/{number:06d}.jpg"

    def write_lists(self, folder: Path, made: Made) -> None:
        write_lines(folder / "meta" / "classes.txt", ["class_name", *self.classes])
        right = (made.true == made.given).astype(int)
        rows = [f"{path.removeprefix('images/')}\t{r}" for path, r in zip(made.paths, right, strict=True)]
        for name, part in (("train", rows[: made.n_train]), ("val", rows[made.n_train :])):
            write_lines(folder / "meta" / f"verified_{name}.tsv", ["class_name/key\tverification_label", *part])

    def row(self, made: Made, i: int) -> dict[str, Any]:
        return {**super().row(made, i), "verification_label": int(made.true[i] == made.given[i])}


LAYOUTS = {layout.data_set.name: layout for layout in (WebVisionLayout, Food101NLayout)}


def make(layout: Layout, root: Path, n_train: int, n_test: int) -> Made:
    """Write the image files, the lists and the split files."""
    rng, n_classes, folder = np.random.default_rng(SEED), len(layout.classes), root / layout.data_set.folders[0]
    true = np.concatenate([np.arange(n) % n_classes for n in (n_train, n_test)])
    wrong = rng.random(len(true)) < WRONG_SHARE
    given = np.where(wrong, (true + rng.integers(1, n_classes, len(true))) % n_classes, true)
    made = Made([layout.path(i, c, i >= n_train) for i, c in enumerate(given.tolist())], true, given, n_train)
    for parent in {(folder / path).parent for path in made.paths}:
        parent.mkdir(parents=True, exist_ok=True)
    work = [(str(folder / path), c, i) for i, (path, c) in enumerate(zip(made.paths, true.tolist(), strict=True))]
    with ProcessPoolExecutor(cores()) as pool:
        list(pool.map(draw_files, [work[start : start + 500] for start in range(0, len(work), 500)]))
    layout.write_lists(folder, made)
    write_splits(root, layout, made, rng)
    return made


def draw_files(work: Sequence[tuple[str, int, int]]) -> None:
    """Coarse pictures of their classes, each seen through another one and under grain."""
    for path, c, number in work:
        rng = np.random.default_rng([SEED, number])
        short, upright = int(rng.integers(*SHORT_SIDE)), rng.random() < 0.3
        long = int(short * rng.uniform(1, STRETCH))
        width, height = (short, long) if upright else (long, short)
        of_class = np.random.default_rng([SEED, 0, c]).integers(0, 140, (6, 6, 3))
        coarse = Image.fromarray((of_class + rng.integers(0, 80, (6, 6, 3))).astype(np.uint8))
        picture = np.asarray(coarse.resize((width, height), Image.Resampling.BILINEAR))
        grain = np.frombuffer(rng.bytes(height * width), np.uint8).reshape(height, width, 1) & 31
        Image.fromarray(picture + grain).save(path, quality=85)


def write_splits(root: Path, layout: Layout, made: Made, rng: np.random.Generator) -> None:
    """A file for each task; labels are numbered in the order in which the tasks bring the classes."""
    n_tasks = layout.data_set.defaults["tasks"]
    tasks = blurry_tasks(made.given[: made.n_train], len(layout.classes), n_tasks, rng, MINOR_SHARE)
    number = {c: place for place, c in enumerate(c for group in tasks.major_classes for c in group)}
    name = f"{layout.prefix}_train_blurry{100 * MINOR_SHARE:.0f}_rand{SEED}_cls{len(layout.classes) // n_tasks}"
    for task, chosen in enumerate(tasks.indices):
        rows = [{**layout.row(made, i), "label": number[int(made.given[i])]} for i in chosen.tolist()]
        (root / f"{name}_task{task}.json").write_text(json.dumps(rows))


def write_lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


# Memory ------------------------------------------------------------------------------------------------------------


class Watch:
    """Looks at the memory of a process with its children, and of the first GPU, until the process ends."""

    def __init__(self) -> None:
        self.looks: list[tuple[float, float, float]] = []  # time; GB of their own, and of files that they map
        self.before = gpu_memory()
        self.gpu: list[float] = []

    def follow(self, pid: int) -> None:
        threading.Thread(target=self._follow, args=[pid], daemon=True).start()

    def _follow(self, pid: int) -> None:
        while (found := memory_of(pid)).any():
            self.looks.append((time.time(), *found.tolist()))
            if self.before is not None and (used := gpu_memory()) is not None:
                self.gpu.append(used - self.before)
            time.sleep(EVERY)

    def figures(self, since: float) -> Iterator[Figure]:
        """Host memory in each quarter of the time since all files were decoded, and what was highest."""
        own = np.array([look[1] for look in self.looks if look[0] >= since])
        for quarter, part in enumerate(np.array_split(own, 4), start=1):
            if len(part):
                least, most = float(part.min()), float(part.max())
                what = f"host memory of its own, quarter {quarter} of the run"
                yield Figure(what, statistics.median(part.tolist()), least, most, len(part), "GB")
        yield one("host memory of its own, highest", max(look[1] for look in self.looks), "GB")
        yield one("host memory of mapped files, highest", max(look[2] for look in self.looks), "GB")
        if self.gpu:
            yield one("GPU memory, highest", max(self.gpu), "GB")


def gpu_memory() -> float | None:
    """GB of the first GPU that are in use; None where there is none."""
    words = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "--id=0"]
    with suppress(OSError, ValueError):
        return float(subprocess.run(words, capture_output=True, text=True, check=False).stdout) * 2**20 / 1e9
    return None


def memory_of(pid: int) -> np.ndarray:
    """GB that a process and its children have in memory: their own, and of files that they map (Linux)."""
    found = np.zeros(2)
    with suppress(OSError):  # it has ended
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        kinds = {
            key: float(value.split()[0]) for key, _, value in (line.partition(":\t") for line in lines) if "Rss" in key
        }
        found += np.array([kinds.get("RssAnon", 0) + kinds.get("RssShmem", 0), kinds.get("RssFile", 0)]) * 1024 / 1e9
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += sum(map(memory_of, map(int, (task / "children").read_text().split())), np.zeros(2))
    return found


if __name__ == "__main__":
    sys.exit(main())
