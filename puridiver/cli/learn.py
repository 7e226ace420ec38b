"""`puridiver learn`: a saved learner goes on with new images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, say, say_json
from puridiver.data.base import DataSource, ImageSet
from puridiver.data.images import image_batch
from puridiver.errors import DataError, few
from puridiver.learner import storage
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner
from puridiver.runtime.device import steady_threads


@flags.settings_flags(("data_root", "bad_files", "device"))
def learn(
    settings: dict[str, Any],
    learner: Annotated[Path, Arg("LEARNER", "folder of `puridiver run --out`, or of Learner.save")],
    data: Annotated[str, Arg("DATA", "what `puridiver run --data` takes: a folder, a table, an .npz, a name")],
    out: Annotated[Path, Opt("where to save the learner afterwards; may be LEARNER", "FOLDER")],
    force: flags.Force = False,
    new_classes: Annotated[bool, Opt("let unknown labels become classes", name="--new-classes")] = False,
    memory: Annotated[int | None, Opt("new size of the memory, no smaller than before", least=1)] = None,
    epochs: Annotated[int | None, Opt("memory epochs of each training (default: the learner's)", least=0)] = None,
    every: Annotated[int | None, Opt("train on the memory after every N images (default: at the end)", least=1)] = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    plugins: flags.Plugins = None,
) -> int:
    """Let a saved learner go on with new images, in the order of their timestamps where these are known.

    The learner is saved once, at the end. Until then LEARNER stays as it is.

    Examples:
      puridiver learn runs/january february.csv --out learners/february      go on after a run
      puridiver learn learners/now march/ --out learners/now --new-classes   in place, with new classes
      puridiver learn learners/now april.csv --out learners/now --every 2000 --epochs 31
    """
    storage.check_place(out)  # what would fail at the end must fail before the work
    if (out / storage.FILE).exists() and out.resolve() != learner.resolve() and not force:
        raise DataError(f"{out} holds another learner: add --force to replace it, or name another folder")
    flags.check_outside(data, out)
    student = Learner.load(learner, settings.get("device", "auto"), new_classes or None, memory)
    known, epochs = list(student.classes), student.options.epochs if epochs is None else epochs
    with steady_threads(student.runtime.device, student.network), Progress(hidden=quiet or json) as progress:
        source = flags.load_data(data, settings, student.image_shape[0], progress)
        labels, rows = _labels(student, source, new_classes), _order(source.train, data)
        _learn(student, source.train, labels, rows, every or len(rows), epochs, progress)
    student.save(out)
    if source.left_out and not quiet:
        note(f"left out, since they cannot be read: {few(source.left_out, 3)}")
    new = [label for label in student.classes if label not in known]
    doubted = sum(row.suggested_label != row.given_label for row in student.audit())
    if json:
        held = {"memory": len(student.memory), "doubted": doubted}
        say_json({"learnt": len(rows), "seen": student.seen, "new_classes": new, **held})
        return 0
    say(f"learnt from {len(rows):,} images, {student.seen:,} in all; new classes: {few(map(str, new)) or 'none'}")
    say(f"it doubts the labels of {doubted:,} of the {len(student.memory):,} samples in its memory")
    say(f"saved in {out}")
    return 0


def _order(images: ImageSet, data: str) -> list[int]:
    """The order in which the images come: that of time, or at random from folders, which list class after class."""
    if images.times is not None:
        return np.argsort(images.times.numpy(), kind="stable").tolist()
    return np.random.default_rng(0).permutation(len(images)).tolist() if Path(data).is_dir() else [*range(len(images))]


def _labels(learner: Learner, source: DataSource, join: bool) -> list[Label]:
    """The data's class names as the learner writes them: a learner of numbers has numbers."""
    names = [source.class_names[label] for label in source.train.labels.tolist()]
    known: dict[str, Label] = {str(label): label for label in learner.classes}
    unknown = sorted(set(names) - known.keys())
    if unknown and not join:
        raise DataError(f"the learner does not know the class {few(unknown, 5)}: add --new-classes to let it join")
    numbers = any(isinstance(label, int) for label in learner.classes)
    return [known.get(name, int(name) if numbers and name.isdecimal() else name) for name in names]


def _learn(
    learner: Learner, images: ImageSet, labels: list[Label], rows: list[int], every: int, epochs: int, bar: Progress
) -> None:
    """Learn from every image once; train on the memory after every so many, and at the end."""
    bar.start(len(rows) + max(1, round(len(rows) / every)) * epochs * learner.capacity)
    since, batch = 0, learner.options.batch_size
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        pixels, names = image_batch(images.images[part].numpy(), learner.image_shape), images.names
        learner.observe(pixels, [labels[row] for row in part], names and [names[row] for row in part])
        since += len(part)
        bar.advance(len(part), f"image {start + len(part):,} of {len(rows):,}")
        if epochs and (since >= every or start + len(part) == len(rows)):
            learner.consolidate(epochs, lambda epoch: bar.advance(learner.capacity, "training on the memory"))
            since = 0
