"""`puridiver learn`: a saved learner continues with new images."""

import hashlib
import json as jsons
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, say, say_json, tell
from puridiver.data.base import DataSource, ImageSet
from puridiver.data.images import image_batch
from puridiver.errors import DataError, few
from puridiver.learner import saving, storage
from puridiver.learner.inputs import Label
from puridiver.learner.learner import Learner
from puridiver.runtime.device import steady_threads

UNDER_WAY = "learning"  # a setting of saves on the way: which images the learner goes through, and from where on


class Plan(NamedTuple):
    """The images that a learner goes through, and how. Beside its own state a save on the way holds this."""

    data: str  # hash of the labels and names in their order
    first: int  # samples that the learner had seen before the first of them
    images: int
    every: int
    epochs: int


@flags.settings_flags(("data_root", "bad_files", "device"))
def learn(
    ctx: typer.Context,
    settings: dict[str, Any],
    learner: Annotated[Path, Arg("LEARNER", "folder of `puridiver run --out`, or of Learner.save")],
    data: Annotated[str, Arg("DATA", "what `puridiver run --data` takes: a folder, a table, an .npz, a name")],
    out: Annotated[Path, Opt("where to save the learner, on the way and at the end; may be LEARNER", "FOLDER")],
    force: flags.Force = False,
    resume: flags.Resume = False,
    checkpoint_every: Annotated[float, Opt("seconds between saves on the way (default: 60)", "X", least=0)] = 60.0,
    new_classes: Annotated[bool, Opt("let unknown labels become classes", name="--new-classes")] = False,
    memory: Annotated[int | None, Opt("new size of the memory", least=1)] = None,
    epochs: Annotated[int | None, Opt("memory epochs of each training (default: the learner's)", least=0)] = None,
    every: Annotated[int | None, Opt("train on the memory after every N images (default: at the end)", least=1)] = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    plugins: flags.Plugins = None,
) -> int:
    """Continue training a saved learner on new images, in the order of their timestamps if they have any.

    The command saves the learner to --out as it goes. After a crash or Ctrl-C repeat it with --resume.

    Examples:
      puridiver learn runs/january february.csv --out learners/february      go on after a run
      puridiver learn learners/now march/ --out learners/now --new-classes   in place, with new classes
      puridiver learn learners/now april.csv --out learners/now --every 2000 --epochs 31
    """
    begun = _check_out(out, learner, force, resume)
    flags.check_outside(data, out)
    student = Learner.load(out if begun else learner, settings.get("device", "auto"), new_classes or None, memory)
    known, epochs = list(student.classes), student.options.epochs if epochs is None else epochs
    with steady_threads(student.runtime.device, student.network), Progress(hidden=quiet or json) as progress:
        shape = student.input_shape
        source = flags.load_data(data, settings, (shape[0], shape[1]) if len(shape) == 3 else None, progress)
        labels, rows = _labels(student, source, new_classes), _order(source.train, data)
        digest = hashlib.sha256(jsons.dumps([[labels[row] for row in rows], source.train.names]).encode()).hexdigest()
        plan = Plan(digest, begun.first if begun else student.seen, len(rows), every or len(rows), epochs)
        if begun not in (None, plan):
            raise DataError(f"{out} was on its way through other images, or with other --every or --epochs")
        try:
            _learn(student, source.train, labels, rows, plan, _saving(student, out, plan, checkpoint_every), progress)
        except KeyboardInterrupt:
            tell(f"to go on from the last save: {flags.resume_command(ctx.obj)}")
            raise
    student.save(out)
    if source.left_out and not quiet:
        note(f"left out, since they cannot be read: {few(source.left_out, 3)}")
    _show(student, out, len(rows), [label for label in student.classes if label not in known], json)
    return 0


def _show(learner: Learner, out: Path, learnt: int, new: list[Label], json: bool) -> None:
    doubted = sum(row.suggested_label != row.given_label for row in learner.audit())
    if json:
        held = {"memory": len(learner.memory), "doubted": doubted}
        say_json({"learnt": learnt, "seen": learner.seen, "new_classes": new, **held})
        return
    say(f"learnt from {learnt:,} images, {learner.seen:,} in all; new classes: {few(map(str, new)) or 'none'}")
    say(f"it doubts the labels of {doubted:,} of the {len(learner.memory):,} samples in its memory")
    say(f"saved in {out}")


def _check_out(out: Path, learner: Path, force: bool, resume: bool) -> Plan | None:
    """Check --out before the work; with --resume, return the plan of the interrupted call."""
    saving.check_place(out)
    found = storage.load(out)[0].get(UNDER_WAY) if (out / storage.FILE).exists() else None
    if resume and found is None:
        raise DataError(f"{out} holds nothing that was interrupted: leave --resume out")
    if found and resume:
        return Plan(**found)
    if found and not force:
        raise DataError(f"{out} was interrupted on its way through some images: say --resume, or --force to begin anew")
    if (out / storage.FILE).exists() and out.resolve() != learner.resolve() and not force:
        raise DataError(f"{out} holds another learner: add --force to replace it, or name another folder")
    return None


def _saving(learner: Learner, out: Path, plan: Plan, seconds: float) -> Callable[[], None]:
    """A function that saves the learner if so many seconds have passed since the last save."""
    last = time.monotonic()

    def save_if_due() -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            settings, tensors = learner.state()
            storage.save(out, {**settings, UNDER_WAY: plan._asdict()}, tensors)
            last = time.monotonic()

    return save_if_due


def _order(images: ImageSet, data: str) -> list[int]:
    """The order of arrival: by time if known; random for a folder, which lists one class after the other."""
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
    learner: Learner, images: ImageSet, labels: list[Label], rows: list[int], plan: Plan, save: Callable[[], None],
    bar: Progress,
) -> None:  # fmt: skip
    """Learn from every image once; train on the memory after every so many, and at the end."""
    batch, n, names = learner.options.stream_batch or learner.options.batch_size, len(rows), images.names
    starts = range(0, n, batch)
    trains = {
        start for start in starts
        if plan.epochs and (start + batch >= n or (start + batch) // plan.every > start // plan.every)
    }  # fmt: skip
    work = plan.epochs * learner.capacity  # of a training, in images
    begun, done = learner.consolidating.begun, learner.seen - plan.first
    bar.start(n + len(trains) * work, done + sum(start < done for start in trains) * work)

    def on_epoch(epoch: int) -> None:
        bar.advance(learner.capacity, "training on the memory")
        save()

    if done and begun:
        learner.consolidate(on_epoch=on_epoch)
    for start in starts[-(-done // batch) :]:
        part = rows[start : start + batch]
        samples = images.images[part].numpy()
        if samples.ndim == 4:  # of any size
            samples = image_batch(samples, learner.input_shape)
        learner.observe(samples, [labels[row] for row in part], names and [names[row] for row in part])
        bar.advance(len(part), f"image {start + len(part):,} of {n:,}")
        if start in trains:
            learner.consolidate(plan.epochs, on_epoch)
        save()
