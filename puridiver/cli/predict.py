"""`puridiver predict`: a table of the classes that a learner predicts for images."""

import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd

from puridiver.cli.flags import Arg, Force, Opt, Plugins, check_new, settings_flags
from puridiver.cli.output import Progress, note, plain, say
from puridiver.data.arrays import read_arrays
from puridiver.data.images import ENDINGS, image_batch
from puridiver.data.listing import guarded, images_in
from puridiver.errors import DataError, few
from puridiver.files import write_atomically
from puridiver.learner.inputs import as_batch
from puridiver.learner.learner import Learner
from puridiver.learner.predictor import check_finite

AT_ONCE = 1_000  # images in memory at a time
ARRAYS = ("images", "test_images", "train_images")  # keys of an .npz; the first that it has


@settings_flags(("bad_files", "device"))
def predict(
    settings: dict[str, Any],
    learner: Annotated[Path, Arg("LEARNER", "folder of `puridiver run --out`, or of Learner.save")],
    images: Annotated[list[Path], Arg("IMAGES", "image files, folders of them (however deep), or .npz files")],
    out: Annotated[Path | None, Opt("CSV file to write (default: standard output)", "FILE")] = None,
    force: Force = False,
    probabilities: Annotated[bool, Opt("add a column of probabilities for each class", name="--probabilities")] = False,
    plugins: Plugins = None,
) -> int:
    """Print the class of each image and its probability, as CSV.

    Examples:
      puridiver predict runs/mine new-pictures/ --out predictions.csv
      puridiver predict runs/mine a.png b.png --probabilities    a column for each class
      puridiver predict my-learner images.npz                    the array `images`
    """
    paths = find_images(images)
    if out:
        check_new(out, force)
    model = Learner.load(learner, settings.get("device", "auto"))
    names, chances, bad = list[str](), [np.empty((0, len(model.classes)), np.float32)], list[str]()
    pictures = _pictures(paths, model.input_shape, bad)
    while part := list(itertools.islice(pictures, AT_ONCE)):
        chances.append(model.predict_proba(np.stack([image for _, image in part])))
        names += [name for name, _ in part]
    if bad and settings.get("bad_files") != "skip":
        raise DataError(f"files cannot be read: {few(bad)}; --bad-files skip leaves them out")
    for one in bad:
        note(f"left out {one}")
    p, classes = np.concatenate(chances), [guarded(str(name)) for name in model.classes]
    check_finite(p)
    labels = np.array(classes)[p.argmax(1)]
    table = pd.DataFrame({"image": [guarded(name) for name in names], "label": labels, "probability": p.max(1)})
    if probabilities:
        table = pd.concat([table, pd.DataFrame(p, columns=classes)], axis=1)
    text = table.to_csv(index=False, float_format="%.4f", lineterminator="\n")
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, text.encode(errors="surrogateescape"))  # names of files byte by byte
        say(out)
    else:
        sys.stdout.write(plain(text) if sys.stdout.isatty() else text)
    return 0


def find_images(paths: Sequence[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    found: list[Path] = []
    for path in paths:
        inside = [path / name for name in images_in(path)] if path.is_dir() else [path]
        if not path.exists() or not inside:
            fault = "holds no image" if path.exists() else "does not exist"
            raise DataError(f"{path} {fault}: name files, or folders of files that end in {few(sorted(ENDINGS))}")
        found += inside
    return found


def _pictures(paths: Sequence[Path], shape: tuple[int, ...], bad: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each image in the learner's shape, with its name; append what is wrong with a file to `bad`."""
    with Progress() as progress:
        for done, path in enumerate(paths, 1):
            for name, picture in _arrays_of(path) if path.suffix == ".npz" else [(str(path), path)]:
                try:
                    yield name, _sample(picture, shape)
                except ValueError as error:
                    bad.append(f"{name}: {str(error).rpartition(': ')[2]}")
            progress.count(done, len(paths))


def _sample(one: Any, shape: tuple[int, ...]) -> np.ndarray:
    """An image file or array as pixels of this shape, or a vector as it is."""
    if len(shape) == 3:
        return image_batch([one], shape)[0]
    if isinstance(one, Path):
        raise ValueError("the learner takes vectors of an .npz file")
    return as_batch(one[None], shape)[0].numpy()


def _arrays_of(path: Path) -> Iterator[tuple[str, Any]]:
    arrays = read_arrays(path, (), ARRAYS)
    images = next((arrays[key] for key in ARRAYS if key in arrays), None)
    if images is None or images.ndim < 2:
        raise DataError(f"{path} should hold an array of images (N, H, W, C) or vectors called {' or '.join(ARRAYS)}")
    for row, image in enumerate(images):
        yield f"{path}:{row}", image
