"""`puridiver predict`: what a learner makes of images, as a table."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli.flags import Arg, Opt, Plugins, settings_flags
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
    force: Annotated[bool, Opt("replace --out, also where it is no table of predictions")] = False,
    probabilities: Annotated[bool, Opt("add a column with the probability of each class")] = False,
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
    from puridiver.data.table import guarded
    from puridiver.files import write_atomically
    from puridiver.learner.predictor import check_finite

    model = load_learner(learner, settings.get("device", "auto"))
    found = find_images(images)
    _check_out(out, found, force)  # before the work, not after it
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    classes = [str(name) for name in model.classes]
    writer.writerow([*HEADING, *(map(guarded, classes) if probabilities else [])])
    for names, pixels in batches(found, model.image_shape, settings.get("bad_files") == "skip"):
        try:
            p = model.predict_proba(pixels)
        except ValueError as error:
            raise DataError(f"{names[0]}: {error}") from error
        check_finite(p)
        for name, row in zip(names, p, strict=True):
            every = [f"{value:.4f}" for value in row] if probabilities else []
            writer.writerow([guarded(name), guarded(classes[int(row.argmax())]), f"{row.max():.4f}", *every])
    if out:
        write_atomically(out, table.getvalue().encode(errors="surrogateescape"))  # names of files as they are
        say(out)
    elif sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(plain(table.getvalue()))
    else:  # for programs: names of files byte by byte
        sys.stdout.flush()
        sys.stdout.buffer.write(table.getvalue().encode(errors="surrogateescape"))
    return 0


def _check_out(out: Path | None, images: Sequence[Path], force: bool) -> None:
    """An older table of predictions may be replaced; anything else only by force."""
    from puridiver.files import check_writable

    if out is None:
        return
    if not out.absolute().parent.is_dir():
        raise DataError(f"{out} cannot be written: there is no folder {out.parent}")
    if out.is_dir():
        raise DataError(f"--out should be a CSV file, but {out} is a folder")
    check_writable(out)
    if any(path.resolve() == out.resolve() for path in images):
        raise DataError(f"--out should be another file than the images, but {out} is one of them")
    if out.is_file() and out.stat().st_size and not force:
        with out.open("rb") as content:
            if not content.readline().startswith(",".join(HEADING).encode()):
                raise DataError(f"{out} is there, and is no table of predictions: add --force to replace it")


def load_learner(folder: Path, device: str, grow: bool | None = None, memory: int | None = None) -> Learner:
    """The learner that a run left in its folder, or one that was saved there; the rest as `Learner.load` has it."""
    from puridiver.learner import storage
    from puridiver.learner.learner import Learner
    from puridiver.runs import folder as runs

    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    if (folder / runs.GRID_CELLS).is_dir():
        raise DataError(f"{folder} is a grid's, whose runs keep no learner: `puridiver run --out` keeps one")
    finished = (folder / runs.SUMMARY).exists()
    if (folder / runs.CONFIG).exists() and not (finished and (folder / runs.LEARNER / storage.INDEX).exists()):
        state = "its run did not keep one (--no-keep-learner)" if finished else "its run has not finished"
        raise DataError(f"{folder} has no learner: {state}")
    return Learner.load(folder, device, grow, memory)


def find_images(paths: Sequence[Path]) -> list[Path]:
    """The files named, and those in the folders named."""
    from puridiver.data.decode import ENDINGS, require_pillow
    from puridiver.data.listing import images_in

    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise DataError(f"there is no {path}")
        inside = images_in(str(path), "")[0] if path.is_dir() else []
        if path.is_dir() and not inside:
            raise DataError(f"{path} holds no image: files should end in {', '.join(sorted(ENDINGS))}")
        found += [path / name for name in inside] or [path]
    if any(path.suffix != ".npz" for path in found):
        require_pillow()
    return found


def batches(
    paths: Sequence[Path], shape: tuple[int, int, int], skip_bad: bool
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Images in the learner's shape with their names, some at a time; a bad file is left out or ends in an error."""
    import numpy as np

    from puridiver.data.pictures import image_batch

    names: list[str] = []
    pixels: list[np.ndarray] = []
    bad: list[str] = []
    with Progress() as progress:
        for done, path in enumerate(paths, 1):
            if path.suffix == ".npz":
                more: Iterable[tuple[str, np.ndarray]] = _arrays_of(path, shape)
            else:
                try:
                    more = [(str(path), image_batch([path], shape)[0])]
                except ValueError as error:
                    more = []
                    bad.append(str(error).partition(": ")[2])
            for name, image in more if skip_bad or not bad else ():
                names.append(name)
                pixels.append(image)
                if len(names) == AT_ONCE:
                    yield names, np.stack(pixels)
                    names, pixels = [], []
            progress.decoding(done, len(paths))
    if bad and not skip_bad:
        raise DataError(f"files cannot be read: {few(bad)}; --bad-files skip leaves them out")
    for one in bad:
        note(f"left out {one}")
    if names:
        yield names, np.stack(pixels)


def _arrays_of(path: Path, shape: tuple[int, int, int]) -> Iterator[tuple[str, np.ndarray]]:
    from puridiver.data.numpy_files import read_arrays

    arrays = read_arrays(path, (), ARRAYS)
    key = next((key for key in ARRAYS if key in arrays), None)
    if key is None:
        raise DataError(f"{path} should hold an array called {' or '.join(ARRAYS)}")
    images = arrays[key]
    if images.ndim < 3 or not len(images):
        raise DataError(f"{path}: {key} should have the shape (N, H, W) or (N, H, W, 1 or 3), but has {images.shape}")
    if images.shape[1:] not in (shape, shape[:2] if shape[2] == 1 else shape):
        one, wanted = ("x".join(map(str, size)) for size in (images.shape[1:], shape))
        raise DataError(f"{path}: {key} holds {len(images)} images of {one}, but the learner's are {wanted}")
    for row, image in enumerate(images.reshape(len(images), *shape)):
        yield f"{path}:{row}", image
