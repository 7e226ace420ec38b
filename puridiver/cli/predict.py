"""`puridiver predict`: what a learner makes of images, as a table."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_command, add_plugin_option

if TYPE_CHECKING:
    import numpy as np

    from puridiver.learner.learner import Learner

EXAMPLES = """\
examples:
  puridiver run --data pictures/ --test-share 0.2 --out runs/mine    learns, and keeps the learner in runs/mine/learner
  puridiver predict runs/mine new-pictures/ --out predictions.csv    each file's class and how sure that is
  puridiver predict runs/mine a.png b.png --probabilities            a column for each class
  puridiver predict my-learner images.npz                            Learner.save("my-learner"); the array `images`
"""
HEADING = ("image", "label", "probability")
AT_ONCE = 1_000  # images in memory at a time
NAMED = 10  # of the files that cannot be read
ARRAYS = ("images", "test_images", "train_images")  # keys of an .npz; the first that it has


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "predict", "say what a learner takes images for", EXAMPLES)
    parser.add_argument("learner", metavar="LEARNER", help="folder of `puridiver run --out`, or of Learner.save")
    parser.add_argument(
        "images", nargs="+", metavar="IMAGES", help="image files, folders of them (however deep), or .npz files"
    )
    parser.add_argument("--out", metavar="FILE", help="CSV file to write (default: standard output)")
    parser.add_argument(
        "--force", action="store_true", help="replace what --out holds, also where it is no table of predictions"
    )
    parser.add_argument("--probabilities", action="store_true", help="a column with the probability of each class")
    parser.add_argument(
        "--bad-files", choices=("refuse", "skip"), default="refuse", help="files that cannot be read (default: refuse)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    add_plugin_option(parser)
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    from puridiver.errors import DataError
    from puridiver.files import write_atomically
    from puridiver.learner import divergence

    learner = load_learner(Path(args.learner), args.device)
    found = find_images([Path(name) for name in args.images])
    _check_out(args.out, found, args.force)  # before the work, not after it
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    classes = [str(name) for name in learner.classes]
    writer.writerow([*HEADING, *(classes if args.probabilities else [])])
    for names, pixels in batches(found, learner.image_shape, args.bad_files == "skip"):
        try:
            p = learner.predict_proba(pixels)
        except ValueError as error:
            raise DataError(f"{names[0].rpartition(':')[0] or names[0]}: {error}") from error
        divergence.check(p)
        for name, row in zip(names, p, strict=True):
            every = [f"{value:.4f}" for value in row] if args.probabilities else []
            writer.writerow([name, classes[int(row.argmax())], f"{row.max():.4f}", *every])
    if args.out:
        write_atomically(
            Path(args.out), table.getvalue().encode(errors="surrogateescape")
        )  # names of files as they are
        print(args.out)
    else:
        _to_stdout(table.getvalue())
    return 0


def _to_stdout(text: str) -> None:
    """Names of files byte by byte, as in a file: programs read this, whatever a terminal can show."""
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode(errors="surrogateescape"))


def _check_out(out: str | None, images: Sequence[Path], force: bool) -> None:
    """An older table of predictions may be replaced; anything else only by force."""
    from puridiver.errors import DataError
    from puridiver.files import check_writable

    if not out:
        return
    if not Path(out).absolute().parent.is_dir():
        raise DataError(f"{out} cannot be written: there is no folder {Path(out).parent}")
    if Path(out).is_dir():
        raise DataError(f"--out should be a CSV file, but {out} is a folder")
    check_writable(Path(out))
    if any(path.resolve() == Path(out).resolve() for path in images):
        raise DataError(f"--out should be another file than the images, but {out} is one of them")
    if Path(out).is_file() and Path(out).stat().st_size and not force:
        with Path(out).open("rb") as content:
            if not content.readline().startswith(",".join(HEADING).encode()):
                raise DataError(f"{out} is there, and is no table of predictions: say --force to replace it")


def load_learner(folder: Path, device: str, grow: bool | None = None, memory: int | None = None) -> Learner:
    """The learner that a run left in its folder, or one that was saved there; the rest as `Learner.load` has it."""
    from puridiver.errors import DataError
    from puridiver.learner import storage
    from puridiver.learner.learner import Learner
    from puridiver.runs import folder as runs

    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}")
    if (folder / runs.GRID_CELLS).is_dir():
        raise DataError(f"{folder} is a grid's, whose runs keep no learner: `puridiver run --out` keeps one")
    kept = folder / runs.LEARNER
    finished = (folder / runs.SUMMARY).exists()
    if (folder / runs.CONFIG).exists() and not (finished and (kept / storage.INDEX).exists()):
        state = "its run did not keep one (--force runs it anew)" if finished else "its run has not finished"
        raise DataError(
            f"{folder} has no learner: {state}; a run with --out keeps one unless --no-keep-learner is said"
        )
    return Learner.load(folder, device, grow, memory)


def find_images(paths: Sequence[Path]) -> list[Path]:
    """The files named, and those in the folders named; an error for what is no image."""
    from puridiver.data.decode import ENDINGS, require_pillow
    from puridiver.data.listing import images_in
    from puridiver.errors import DataError

    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside, _ = images_in(str(path), "")
            if not inside:
                raise DataError(f"{path} holds no image: files should end in {', '.join(sorted(ENDINGS))}")
            found += [path / name for name in inside]
        elif not path.exists():
            raise DataError(f"there is no {path}")
        else:
            found.append(path)
    if any(path.suffix != ".npz" for path in found):
        require_pillow()
    return found


def batches(
    paths: Sequence[Path], shape: tuple[int, int, int], skip_bad: bool
) -> Iterator[tuple[list[str], np.ndarray]]:
    """Images in the learner's shape with their names, some at a time."""
    import numpy as np

    from puridiver.cli.common import decoding_progress

    names: list[str] = []
    pixels: list[np.ndarray] = []
    bad: list[str] = []
    with decoding_progress() as progress:
        for done, path in enumerate(paths):
            if path.suffix == ".npz":
                if names:  # in the order in which they were named
                    yield names, np.stack(pixels)
                    names, pixels = [], []
                yield from _of_arrays(path, shape)
            elif isinstance(picture := _of_file(path, shape), str):
                bad.append(f"{path}: {picture}")
            else:
                names.append(str(path))
                pixels.append(picture)
            if bad and not skip_bad:  # the rest is only looked through for more of them
                names, pixels = [], []
            if len(names) == AT_ONCE:
                yield names, np.stack(pixels)
                names, pixels = [], []
            progress(done + 1, len(paths))
    _tell_of_bad(bad, skip_bad)
    if names:
        yield names, np.stack(pixels)


def _tell_of_bad(bad: Sequence[str], skip: bool) -> None:
    from puridiver.errors import DataError

    if skip:
        for one in bad:
            print(f"note: left out {one}", file=sys.stderr)
    elif bad:
        more = f"; ... and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
        files = "1 file" if len(bad) == 1 else f"{len(bad)} files"
        raise DataError(
            f"{files} cannot be read: {'; '.join(bad[:NAMED])}{more}; --bad-files skip leaves such files out"
        )


def _of_file(path: Path, shape: tuple[int, int, int]) -> np.ndarray | str:
    """The file's pixels, or what is wrong with it."""
    from puridiver.data.decode import decode, grey
    from puridiver.errors import DataError

    height, width, channels = shape
    if height != width:
        raise DataError(f"image files are cut to squares, but the learner's images are {height}x{width}: use an .npz")
    found = decode(str(path), height)
    if found.pixels is None:
        return found.problem
    return found.pixels if channels == 3 else grey(found.pixels)


def _of_arrays(path: Path, shape: tuple[int, int, int]) -> Iterator[tuple[list[str], np.ndarray]]:
    import numpy as np

    from puridiver.data.damage import DAMAGE
    from puridiver.errors import DataError

    try:
        with np.load(path, allow_pickle=False) as archive:
            key = next((key for key in ARRAYS if key in archive.files), None)
            if key is None:
                raise DataError(f"{path} should hold an array called {' or '.join(ARRAYS)}")
            images = archive[key]
    except DAMAGE as error:
        raise DataError(f"{path} is not an .npz file that can be read, or is damaged") from error
    if images.ndim < 3 or not len(images):
        raise DataError(f"{path}: {key} should have the shape (N, H, W) or (N, H, W, 1 or 3), but has {images.shape}")
    if images.shape[1:] not in (shape, shape[:2] if shape[2] == 1 else shape):
        one, wanted = ("x".join(map(str, size)) for size in (images.shape[1:], shape))
        raise DataError(f"{path}: {key} holds {len(images)} images of {one}, but the learner's are {wanted}")
    for start in range(0, len(images), AT_ONCE):
        part = images[start : start + AT_ONCE]
        yield [f"{path}:{row}" for row in range(start, start + len(part))], part
