"""`puridiver learn`: a saved learner goes on with new images."""

from __future__ import annotations

import argparse
import operator
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_command, add_plugin_option, check_outside, console, decoding_progress
from puridiver.cli.notes import LONG_ON_A_CPU, left_out_note
from puridiver.cli.predict import load_learner
from puridiver.cli.run_settings import is_place

if TYPE_CHECKING:
    import numpy as np

    from puridiver.cli.run import ProgressBar
    from puridiver.data.base import DataSource, ImageSet
    from puridiver.learner.inputs import Label
    from puridiver.learner.learner import Learner

EXAMPLES = """\
The learner is saved once, at the end, and until then LEARNER stays as it is: what is stopped begins anew, so give it a
month at a time rather than a year. The ids of its samples are their files' names (`Learner.audit`, `held_ids`).

examples:
  puridiver learn runs/january february.csv --out learners/february
      the learner that `puridiver run --out runs/january` left goes on with new images
  puridiver learn learners/now march/ --out learners/now --new-classes
      in place; labels that it does not know become classes
  puridiver learn learners/now april.csv --out learners/now --every 2000 --epochs 31
      train on the memory in between, too, and for 31 epochs each time
"""
ORDERS = ("time", "listed", "random")


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "learn", "let a saved learner go on with new images", EXAMPLES)
    add = parser.add_argument
    add("learner", metavar="LEARNER", help="folder of `puridiver run --out`, or of Learner.save")
    add("data", metavar="DATA", help="what `puridiver run --data` takes: a folder, a table, an .npz file, a name")
    add("--out", metavar="FOLDER", required=True, help="where the learner is saved then; LEARNER replaces it")
    add("--force", action="store_true", help="replace another learner that --out holds")
    add("--new-classes", action="store_true", help="let labels that the learner does not know become classes")
    add("--memory", type=int, metavar="N", help="samples the memory may hold from now on, no fewer than so far")
    add("--epochs", type=int, metavar="N", help="memory epochs of each training (default: the learner's; 0: none)")
    add("--every", type=int, metavar="N", help="train on the memory after every N images, too (default: at the end)")
    add("--batch", type=int, default=16, metavar="N", help="images a batch (default: 16)")
    add("--order", choices=ORDERS,
        help="of the images (default: time where the data tell it, a folder's at random, else as listed)")  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="of a random order (default: 0)")
    add("--data-root", metavar="FOLDER", help="folder that holds the data sets")
    add("--bad-files", choices=("refuse", "skip"), default="refuse", help="unreadable image files (default: refuse)")
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    add("--json", action="store_true", help="print the figures as JSON instead of lines")
    add("--quiet", action="store_true", help="no progress bar, and no notes")
    add_plugin_option(parser)
    parser.set_defaults(handler=handle)


@dataclass(frozen=True)
class Lessons:
    """What is learnt from, in which order, and how often the memory is trained on."""

    images: ImageSet
    labels: Sequence[Label]  # by the learner's names
    order: np.ndarray
    batch: int
    every: int
    epochs: int

    @property
    def trainings(self) -> int:
        return (max(1, round(len(self.order) / self.every)) if self.every else 1) if self.epochs else 0


def handle(args: argparse.Namespace) -> int:
    from rich.console import Console

    from puridiver.cli.run import ProgressBar
    from puridiver.runtime.device import steady_threads

    errors = Console(stderr=True)
    _check(args)
    if is_place("data", args.data):
        check_outside(Path(args.data), Path(args.out))
    learner: Learner = load_learner(Path(args.learner), args.device, args.new_classes or None, args.memory)
    source = _source(args, learner)
    lessons = _lessons(args, learner, source)
    for note in [] if args.quiet else _notes(learner, lessons, source):
        errors.print(f"note: {note}", highlight=False, markup=False)
    known = set(learner.classes)
    try:
        with (
            steady_threads(learner.runtime.device, learner.network),
            ProgressBar(errors, hidden=args.quiet or args.json) as progress,
        ):
            before = _accuracy(learner, source)
            agreed = _learn(learner, lessons, progress)
            after = _accuracy(learner, source)
    except KeyboardInterrupt:
        errors.print(f"nothing is saved; {args.learner} is as it was", highlight=False, markup=False)
        raise
    learner.save(args.out)
    _tell(args, {
        "learnt": len(lessons.order),
        "seen": learner.seen,
        "new_classes": [label for label in learner.classes if label not in known],
        "agreement": agreed,
        "memory": len(learner.memory),
        "said_otherwise": sum(row.suggested_label != row.given_label for row in learner.audit()),
        **({} if before is None else {"test_accuracy_before": before, "test_accuracy_after": after}),
        "saved": str(args.out),
    })  # fmt: skip
    return 0


def _check(args: argparse.Namespace) -> None:
    """What would fail at the end must fail before the work."""
    from puridiver.errors import DataError
    from puridiver.learner import saved, storage
    from puridiver.runs import folder as runs

    for name, least in (("batch", 1), ("every", 1), ("epochs", 0), ("seed", 0)):
        value = getattr(args, name)
        if value is not None and value < least:
            raise ValueError(f"--{name} should be at least {least}, but got {value}")
    out = Path(args.out)
    if (out / runs.CONFIG).exists() or (out / runs.GRID_CELLS).is_dir():
        raise DataError(f"{out} holds a run, which stays as it is: name another folder for the learner")
    replaces = (out / storage.INDEX).exists() and out.resolve() != Path(args.learner).resolve()
    if replaces and not args.force:
        raise DataError(f"{out} holds another learner: say --force to replace it, or name another folder")
    runs.check_no_run(out)
    saved.check_place(out)


def _source(args: argparse.Namespace, learner: Learner) -> DataSource:
    """The images in the learner's size; what the data keep for testing stays out."""
    from puridiver import data
    from puridiver.data.files import is_own
    from puridiver.errors import DataError

    height, width, channels = learner.image_shape
    of_files = args.data not in data.SOURCES and is_own(args.data)
    if of_files and height != width:
        raise DataError(f"image files are cut to squares, but the learner's images are {height}x{width}: use an .npz")
    own = of_files or args.data.endswith(".npz")
    options = data.FileOptions(height if of_files else None, 0.0 if own else None, args.bad_files)
    with decoding_progress() as on_progress:
        source = data.load(args.data, Path(args.data_root) if args.data_root else None, options, on_progress)
    found = source.image_shape
    if found != learner.image_shape and not (found[:2] == (height, width) and (found[2], channels) == (3, 1)):
        one, other = ("x".join(map(str, shape)) for shape in (found, learner.image_shape))
        raise DataError(f"{args.data} has images of {one}, but the learner's are {other}")
    return source


def _lessons(args: argparse.Namespace, learner: Learner, source: DataSource) -> Lessons:
    import numpy as np

    labels = _labels(learner, [source.class_names[label] for label in source.train.labels.tolist()], args.new_classes)
    order = args.order or (
        "time" if source.train.times is not None else "random" if _is_folder(args.data) else "listed"
    )
    rows = np.arange(len(labels))
    if order == "time":
        if source.train.times is None:
            raise ValueError(f"--order time needs data that tell when each image came, which {args.data} do not")
        rows = np.argsort(source.train.times.numpy(), kind="stable")
    elif order == "random":
        rows = np.random.default_rng(args.seed).permutation(len(labels))
    epochs = learner.options.epochs if args.epochs is None else args.epochs
    return Lessons(source.train, labels, rows, args.batch, args.every or 0, epochs)


def _notes(learner: Learner, lessons: Lessons, source: DataSource) -> Iterator[str]:
    """What a user would want to know before waiting."""
    if source.left_out:
        yield left_out_note(source.left_out)
    if learner.runtime.device.type == "cpu" and lessons.epochs > LONG_ON_A_CPU:
        yield f"{lessons.epochs} memory epochs take long on a CPU; --epochs 31 is {lessons.epochs // 31} times as quick"


def _is_folder(data: str) -> bool:
    from puridiver.data import SOURCES

    return data not in SOURCES and Path(data).is_dir()


def _labels(learner: Learner, names: Sequence[str], join: bool) -> list[Label]:
    """The data's class names as the learner writes them: a learner of numbers has numbers."""
    from puridiver.errors import DataError

    ids: dict[str, Label] = {str(label): label for label in learner.classes}
    unknown = sorted(set(names) - ids.keys())
    if unknown and not join:
        shown = ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else "")
        raise DataError(f"the learner does not know the class {shown}: say --new-classes to let such classes join")
    if any(isinstance(label, int) for label in learner.classes):
        wrong = [name for name in unknown if not name.isdecimal()]
        if wrong:
            raise DataError(f"the learner's classes are numbers, so that {wrong[0]!r} cannot become one")
        ids |= {name: int(name) for name in unknown}
    return [ids.get(name, name) for name in names]


def _pixels(learner: Learner, images: ImageSet, rows: np.ndarray) -> np.ndarray:
    import torch

    from puridiver.data.decode import grey

    found = images.images[torch.from_numpy(rows)].numpy()
    return grey(found) if found.shape[3] == 3 and learner.image_shape[2] == 1 else found


def _learn(learner: Learner, lessons: Lessons, progress: ProgressBar) -> float | None:
    """Learn from everything once; the share of labels that the learner had said itself beforehand."""
    work = lessons.trainings * lessons.epochs * learner.capacity
    progress.start(len(lessons.order) + work)
    agreed, asked, since = 0, 0, 0
    for start in range(0, len(lessons.order), lessons.batch):
        rows = lessons.order[start : start + lessons.batch]
        pixels, labels = _pixels(learner, lessons.images, rows), [lessons.labels[row] for row in rows.tolist()]
        if learner.classes:
            agreed += sum(map(operator.eq, learner.predict(pixels).tolist(), labels))
            asked += len(labels)
        names = lessons.images.names
        learner.observe(pixels, labels, None if names is None else [names[row] for row in rows.tolist()])
        progress.advance(len(rows), f"image {start + len(rows):,} of {len(lessons.order):,}")
        since += len(rows)
        last = start + len(rows) == len(lessons.order)
        if lessons.epochs and (last or (lessons.every and since >= lessons.every)):
            learner.consolidate(lessons.epochs, lambda epoch: progress.advance(learner.capacity, "memory"))
            since = 0
    return agreed / asked if asked else None


def _accuracy(learner: Learner, source: DataSource) -> float | None:
    """On what the data keep for testing, by the best labels they have; None where that is nothing."""
    import numpy as np

    if not len(source.test) or not learner.classes:
        return None
    right = 0
    for rows in np.array_split(np.arange(len(source.test)), -(-len(source.test) // 1000)):
        said = learner.predict(_pixels(learner, source.test, rows)).tolist()
        given = [source.class_names[label] for label in source.test.labels[rows].tolist()]
        right += sum(str(one) == other for one, other in zip(said, given, strict=True))
    return right / len(source.test)


def _tell(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    from puridiver.runs.folder import to_json

    if args.json:
        sys.stdout.write(to_json(figures, indent=1) + "\n")
        return
    joined = ", ".join(map(str, figures["new_classes"]))
    lines = [
        f"learnt from {figures['learnt']:,} images, {figures['seen']:,} in all" + f"; new: {joined}" * bool(joined)
    ]
    if figures["agreement"] is not None:
        lines.append(f"before it learnt from them it agreed with {figures['agreement']:.1%} of their labels")
    otherwise, held = figures["said_otherwise"], figures["memory"]
    lines.append(
        f"it takes {otherwise:,} of the {held:,} samples in its memory for another class than they are labelled"
    )
    if "test_accuracy_before" in figures:
        before, after = figures["test_accuracy_before"], figures["test_accuracy_after"]
        lines.append(f"accuracy on the data's test images: {before:.1%} before, {after:.1%} now")
    lines.append(f"saved in {figures['saved']}")
    for line in lines:
        console().print(line, highlight=False, markup=False, soft_wrap=True)
