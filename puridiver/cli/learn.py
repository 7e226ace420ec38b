"""`puridiver learn`: a saved learner goes on with new images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, percent, say, say_json, tell
from puridiver.cli.predict import AT_ONCE, load_learner
from puridiver.errors import DataError, few

if TYPE_CHECKING:
    import numpy as np

    from puridiver.data.base import DataSource, ImageSet
    from puridiver.learner.inputs import Label
    from puridiver.learner.learner import Learner


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
      puridiver learn runs/january february.csv --out learners/february
          the learner of a finished run goes on with new images
      puridiver learn learners/now march/ --out learners/now --new-classes
          in place; labels that it does not know become classes
      puridiver learn learners/now april.csv --out learners/now --every 2000 --epochs 31
          train on the memory in between, too, for 31 epochs each time
    """
    from puridiver.runtime.device import steady_threads

    _check_out(learner, out, force)
    flags.check_outside(data, out)
    student = load_learner(learner, settings.get("device", "auto"), new_classes or None, memory)
    known, epochs = list(student.classes), student.options.epochs if epochs is None else epochs
    try:
        with steady_threads(student.runtime.device, student.network), Progress(hidden=quiet or json) as progress:
            source = _load(data, settings, student, progress)
            labels, rows = _labels(student, source, new_classes), _rows(source.train, data)
            before = _accuracy(student, source)
            _learn(student, source.train, labels, rows, every or len(rows), epochs, progress)
            after = _accuracy(student, source)
    except KeyboardInterrupt:
        tell(f"nothing is saved; {learner} is as it was")
        raise
    student.save(out)
    if source.left_out and not quiet:
        note(f"left out, since they cannot be read: {few(source.left_out, 3)}")
    new = [label for label in student.classes if label not in known]
    doubted = sum(row.suggested_label != row.given_label for row in student.audit())
    if json:
        say_json({"learnt": len(rows), "seen": student.seen, "new_classes": new, "memory": len(student.memory),
                  "doubted": doubted, "test_accuracy_before": before, "test_accuracy_after": after})  # fmt: skip
        return 0
    say(f"learnt from {len(rows):,} images, {student.seen:,} in all; new classes: {few(map(str, new)) or 'none'}")
    say(f"it doubts the labels of {doubted:,} of the {len(student.memory):,} samples in its memory")
    if before is not None:
        say(f"accuracy on the data's test images: {percent(before)} before, {percent(after)} now")
    say(f"saved in {out}")
    return 0


def _check_out(learner: Path, out: Path, force: bool) -> None:
    """What would fail at the end must fail before the work."""
    from puridiver.learner import state, storage
    from puridiver.runs.folder import check_no_run

    check_no_run(out)
    if (out / storage.INDEX).exists() and out.resolve() != learner.resolve() and not force:
        raise DataError(f"{out} holds another learner: add --force to replace it, or name another folder")
    state.check_place(out)


def _load(data: str, settings: dict[str, Any], learner: Learner, progress: Progress) -> DataSource:
    """The images in the learner's size."""
    height, width, channels = learner.image_shape
    source = flags.load_data(data, settings, height, progress)
    if source.image_shape[:2] != (height, width) or source.image_shape[2] < channels:
        raise DataError(f"{data} has images of {source.image_shape}, but the learner's are {learner.image_shape}")
    return source


def _rows(images: ImageSet, data: str) -> np.ndarray:
    """The order in which the images come: that of time, or at random from folders, which list class after class."""
    import numpy as np

    if images.times is not None:
        return np.argsort(images.times.numpy(), kind="stable")
    return np.random.default_rng(0).permutation(len(images)) if Path(data).is_dir() else np.arange(len(images))


def _labels(learner: Learner, source: DataSource, join: bool) -> list[Label]:
    """The data's class names as the learner writes them: a learner of numbers has numbers."""
    names = [source.class_names[label] for label in source.train.labels.tolist()]
    ids: dict[str, Label] = {str(label): label for label in learner.classes}
    unknown = sorted(set(names) - ids.keys())
    if unknown and not join:
        raise DataError(f"the learner does not know the class {few(unknown, 5)}: add --new-classes to let it join")
    if any(isinstance(label, int) for label in learner.classes):
        if wrong := [name for name in unknown if not name.isdecimal()]:
            raise DataError(f"the learner's classes are numbers, so that {wrong[0]!r} cannot become one")
        ids |= {name: int(name) for name in unknown}
    return [ids.get(name, name) for name in names]


def _learn(
    learner: Learner, images: ImageSet, labels: list[Label], rows: np.ndarray, every: int, epochs: int, bar: Progress
) -> None:
    """Learn from every image once; train on the memory after every so many, and at the end."""
    from puridiver.data.images import image_batch

    bar.start(len(rows) + max(1, round(len(rows) / every)) * epochs * learner.capacity)
    since, batch = 0, learner.options.batch_size
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch].tolist()
        pixels, names = image_batch(images.images[part].numpy(), learner.image_shape), images.names
        learner.observe(pixels, [labels[row] for row in part], names and [names[row] for row in part])
        since += len(part)
        bar.advance(len(part), f"image {start + len(part):,} of {len(rows):,}")
        if epochs and (since >= every or start + len(part) == len(rows)):
            learner.consolidate(epochs, lambda epoch: bar.advance(learner.capacity, "training on the memory"))
            since = 0


def _accuracy(learner: Learner, source: DataSource) -> float | None:
    """Accuracy on the data's test part; None where it has none."""
    from puridiver.data.images import image_batch

    labels, images = source.test.labels.tolist(), source.test.images
    if not labels or not learner.classes:
        return None
    right = 0
    for start in range(0, len(labels), AT_ONCE):
        pixels = image_batch(images[start : start + AT_ONCE].numpy(), learner.image_shape)
        given = (source.class_names[label] for label in labels[start : start + AT_ONCE])
        right += sum(map(str.__eq__, map(str, learner.predict(pixels)), given))
    return right / len(labels)
