"""`puridiver predict`: what a learner makes of images, as a table."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli.flags import Arg, Force, Opt, Plugins, check_new, settings_flags
from puridiver.cli.output import Progress, note, plain, say
from puridiver.errors import DataError, few

if TYPE_CHECKING:
    import numpy as np

    from puridiver.learner.learner import Learner

HEADING = ("image", "label", "probability")
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
          with the learner that `puridiver run --out runs/mine` kept
      puridiver predict runs/mine a.png b.png --probabilities
          a column for each class
      puridiver predict my-learner images.npz
          a learner of Learner.save("my-learner"), and the array `images`
    """
    import numpy as np
    import pandas as pd

    from puridiver.data.table import guarded
    from puridiver.files import write_atomically
    from puridiver.learner.predictor import check_finite

    model, skip_bad = load_learner(learner, settings.get("device", "auto")), settings.get("bad_files") == "skip"
    paths = find_images(images)
    if out:
        check_new(out, force)
    names, chances, bad = list[str](), [np.empty((0, len(model.classes)), np.float32)], list[str]()
    pictures = _pictures(paths, model.image_shape, bad)
    while part := list(itertools.islice(pictures, AT_ONCE)):
        if skip_bad or not bad:
            chances.append(model.predict_proba(np.stack([image for _, image in part])))
            names += [name for name, _ in part]
    if bad and not skip_bad:
        raise DataError(f"files cannot be read: {few(bad)}; --bad-files skip leaves them out")
    for one in bad:
        note(f"left out {one}")
    p, classes = np.concatenate(chances), [guarded(str(name)) for name in model.classes]
    check_finite(p)
    columns = ([guarded(name) for name in names], np.array(classes)[p.argmax(1)], p.max(1))
    table = pd.DataFrame(dict(zip(HEADING, columns, strict=True)))
    if probabilities:
        table = pd.concat([table, pd.DataFrame(p, columns=classes)], axis=1)
    text = table.to_csv(index=False, float_format="%.4f", lineterminator="\n")
    content = text.encode(errors="surrogateescape")  # names of files byte by byte
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(out, content)
        say(out)
    elif sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(plain(text))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
    return 0


def load_learner(folder: Path, device: str, grow: bool | None = None, memory: int | None = None) -> Learner:
    """The learner that a run left in its folder, or one that was saved there; the rest as `Learner.load` has it."""
    from puridiver.learner import storage
    from puridiver.learner.learner import Learner
    from puridiver.runs import folder as runs

    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    finished = (folder / runs.SUMMARY).exists()
    if (folder / runs.CONFIG).exists() and not (finished and (folder / runs.LEARNER / storage.INDEX).exists()):
        state = "its run did not keep one (--no-keep-learner)" if finished else "its run has not finished"
        raise DataError(f"{folder} has no learner: {state}")
    return Learner.load(folder, device, grow, memory)


def find_images(paths: Sequence[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    from puridiver.data.images import ENDINGS
    from puridiver.data.listing import images_in

    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise DataError(f"there is no {path}")
        inside = images_in(path)[0] if path.is_dir() else []
        if path.is_dir() and not inside:
            raise DataError(f"{path} holds no image: files should end in {', '.join(sorted(ENDINGS))}")
        found += [path / name for name in inside] or [path]
    return found


def _pictures(paths: Sequence[Path], shape: tuple[int, int, int], bad: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Each image in the learner's shape, with its name; what is wrong with files is added to `bad`."""
    from puridiver.data.images import image_batch

    with Progress() as progress:
        for done, path in enumerate(paths, 1):
            if path.suffix == ".npz":
                yield from _arrays_of(path, shape)
            else:
                try:
                    yield str(path), image_batch([path], shape)[0]
                except ValueError as error:
                    bad.append(str(error).partition(": ")[2])
            progress.count(done, len(paths))


def _arrays_of(path: Path, shape: tuple[int, int, int]) -> Iterator[tuple[str, np.ndarray]]:
    from puridiver.data.arrays import read_arrays

    arrays = read_arrays(path, (), ARRAYS)
    images = next((arrays[key] for key in ARRAYS if key in arrays), None)
    if images is None:
        raise DataError(f"{path} should hold an array called {' or '.join(ARRAYS)}")
    if images.shape[1:] not in (shape, shape[:2] if shape[2] == 1 else shape):
        raise DataError(f"{path} has images of the shape {images.shape[1:]}, but the learner's are {shape}")
    for row, image in enumerate(images.reshape(len(images), *shape)):
        yield f"{path}:{row}", image
