"""`puridiver learn`: a saved learner goes on with new images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli.flags import Arg, Force, Json, Opt, Plugins, Quiet, check_outside, settings_flags
from puridiver.cli.output import Progress, note, percent, say, say_json, tell
from puridiver.cli.predict import load_learner
from puridiver.errors import DataError, few

if TYPE_CHECKING:
    import numpy as np

    from puridiver.data.base import DataSource, ImageSet
    from puridiver.learner.inputs import Label
    from puridiver.learner.learner import Learner

ORDERS = ("time", "listed", "random")


@settings_flags(("data_root", "bad_files", "device"))
def learn(
    settings: dict[str, Any],
    learner: Annotated[Path, Arg("LEARNER", "folder of `puridiver run --out`, or of Learner.save")],
    data: Annotated[str, Arg("DATA", "what `puridiver run --data` takes: a folder, a table, an .npz, a name")],
    out: Annotated[Path, Opt("where to save the learner afterwards; may be LEARNER", "FOLDER")],
    force: Force = False,
    new_classes: Annotated[bool, Opt("let unknown labels become classes")] = False,
    memory: Annotated[int | None, Opt("new size of the memory, no smaller than before", least=1)] = None,
    epochs: Annotated[
        int | None, Opt("memory epochs of each training (default: the learner's; 0: none)", least=0)
    ] = None,
    every: Annotated[int | None, Opt("train on the memory after every N images (default: at the end)", least=1)] = None,
    batch: Annotated[int, Opt("images a batch (default: 16)", least=1)] = 16,
    order: Annotated[
        str | None,
        Opt("order of the images (default: time if known, a folder's at random, else listed)", choices=ORDERS),
    ] = None,
    seed: Annotated[int, Opt("seed of a random order (default: 0)", least=0)] = 0,
    json: Json = False,
    quiet: Quiet = False,
    plugins: Plugins = None,
) -> int:
    """Let a saved learner go on with new images.

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
    check_outside(data, out)
    student = load_learner(learner, settings.get("device", "auto"), new_classes or None, memory)
    with Progress(hidden=quiet or json) as progress:
        source = _load(data, settings, student, progress)
    if source.left_out and not quiet:
        note(f"left out, since they cannot be read: {few(source.left_out, 3)}")
    known = list(student.classes)
    labels = _labels(student, [source.class_names[label] for label in source.train.labels.tolist()], new_classes)
    rows = _rows(source.train, order or _usual_order(source.train, data), seed, data)
    epochs = student.options.epochs if epochs is None else epochs
    try:
        with steady_threads(student.runtime.device, student.network), Progress(hidden=quiet or json) as progress:
            before = _accuracy(student, source)
            agreed = _learn(student, source.train, labels, rows, (batch, every or len(rows), epochs), progress)
            after = _accuracy(student, source)
    except KeyboardInterrupt:
        tell(f"nothing is saved; {learner} is as it was")
        raise
    student.save(out)
    figures = {
        "learnt": len(rows),
        "seen": student.seen,
        "new_classes": [label for label in student.classes if label not in known],
        "agreement": agreed,
        "memory": len(student.memory),
        "said_otherwise": sum(row.suggested_label != row.given_label for row in student.audit()),
        **({} if before is None else {"test_accuracy_before": before, "test_accuracy_after": after}),
        "saved": str(out),
    }
    say_json(figures) if json else _print(figures)
    return 0


def _check_out(learner: Path, out: Path, force: bool) -> None:
    """What would fail at the end must fail before the work."""
    from puridiver.learner import state, storage
    from puridiver.runs import folder as runs

    if (out / runs.CONFIG).exists() or (out / runs.GRID_CELLS).is_dir():
        raise DataError(f"{out} holds a run, which stays as it is: name another folder for the learner")
    if (out / storage.INDEX).exists() and out.resolve() != learner.resolve() and not force:
        raise DataError(f"{out} holds another learner: add --force to replace it, or name another folder")
    runs.check_no_run(out)
    state.check_place(out)


def _load(data: str, settings: dict[str, Any], learner: Learner, progress: Progress) -> DataSource:
    """The images in the learner's size."""
    from puridiver import data as sources
    from puridiver.data.sources import is_own

    height, width, channels = learner.image_shape
    of_files = data not in sources.SOURCES and is_own(data)
    if of_files and height != width:
        raise DataError(f"image files are cut to squares, but the learner's images are {height}x{width}: use an .npz")
    share = 0.0 if of_files or data.endswith(".npz") else None  # learn from all, unless the data have a test part
    options = sources.FileOptions(height if of_files else None, share, settings.get("bad_files", "refuse"))
    root = settings.get("data_root")
    source = sources.load(data, Path(root) if root else None, options, progress.decoding)
    found = source.image_shape
    if found != learner.image_shape and not (found[:2] == (height, width) and (found[2], channels) == (3, 1)):
        one, other = ("x".join(map(str, shape)) for shape in (found, learner.image_shape))
        raise DataError(f"{data} has images of {one}, but the learner's are {other}")
    return source


def _usual_order(images: ImageSet, data: str) -> str:
    return "time" if images.times is not None else "random" if Path(data).is_dir() else "listed"


def _rows(images: ImageSet, order: str, seed: int, data: str) -> np.ndarray:
    """The order in which the images come."""
    import numpy as np

    if order == "random":
        return np.random.default_rng(seed).permutation(len(images))
    if order == "listed":
        return np.arange(len(images))
    if images.times is None:
        raise ValueError(f"--order time needs data that tell when each image came, which {data} does not")
    return np.argsort(images.times.numpy(), kind="stable")


def _labels(learner: Learner, names: Sequence[str], join: bool) -> list[Label]:
    """The data's class names as the learner writes them: a learner of numbers has numbers."""
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
    learner: Learner, images: ImageSet, labels: Sequence[Label], rows: np.ndarray, pace: tuple[int, int, int],
    progress: Progress,
) -> float | None:  # fmt: skip
    """Learn from every image once. Returns the share of labels that the learner had predicted itself."""
    batch, every, epochs = pace
    trainings = max(1, round(len(rows) / max(every, 1)))
    progress.start(len(rows) + trainings * epochs * learner.capacity)
    agreed, asked, since = 0, 0, 0
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        pixels, given = _pixels(learner, images, part), [labels[row] for row in part.tolist()]
        if learner.classes:
            predicted = learner.predict(pixels).tolist()
            agreed += sum(one == other for one, other in zip(predicted, given, strict=True))
            asked += len(given)
        learner.observe(pixels, given, images.names and [images.names[row] for row in part.tolist()])
        since += len(part)
        progress.advance(len(part), f"image {start + len(part):,} of {len(rows):,}")
        if epochs and (since >= every or start + len(part) == len(rows)):
            learner.consolidate(epochs, lambda epoch: progress.advance(learner.capacity, "training on the memory"))
            since = 0
    return agreed / asked if asked else None


def _pixels(learner: Learner, images: ImageSet, rows: np.ndarray) -> np.ndarray:
    import torch

    from puridiver.data.decode import grey

    found: np.ndarray = images.images[torch.from_numpy(rows)].numpy()
    return grey(found) if found.shape[3] == 3 and learner.image_shape[2] == 1 else found


def _accuracy(learner: Learner, source: DataSource) -> float | None:
    """Accuracy on the data's test part; None where it has none."""
    import numpy as np

    if not len(source.test) or not learner.classes:
        return None
    right = 0
    for rows in np.array_split(np.arange(len(source.test)), -(-len(source.test) // 1000)):
        predicted = learner.predict(_pixels(learner, source.test, rows)).tolist()
        given = [source.class_names[label] for label in source.test.labels[rows].tolist()]
        right += sum(str(one) == other for one, other in zip(predicted, given, strict=True))
    return right / len(source.test)


def _print(figures: dict[str, Any]) -> None:
    new = "; new classes: " + few(map(str, figures["new_classes"])) if figures["new_classes"] else ""
    say(f"learnt from {figures['learnt']:,} images, {figures['seen']:,} in all{new}")
    if figures["agreement"] is not None:
        say(f"it agreed with {percent(figures['agreement'])} of their labels before it learnt from them")
    say(f"it doubts the labels of {figures['said_otherwise']:,} of the {figures['memory']:,} samples in its memory")
    if "test_accuracy_before" in figures:
        before, after = percent(figures["test_accuracy_before"]), percent(figures["test_accuracy_after"])
        say(f"accuracy on the data's test images: {before} before, {after} now")
    say(f"saved in {figures['saved']}")
