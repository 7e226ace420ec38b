"""`puridiver stream`: make, show and verify stream manifests."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_actions, add_command, decoding_progress, told_afterwards
from puridiver.cli.stream_show import describe, show_stream, summary
from puridiver.errors import few

if TYPE_CHECKING:
    from puridiver.data import DataSource, FileOptions, Findings
    from puridiver.streams import StreamManifest

EXAMPLES = """\
examples:
  puridiver stream make --data digits --out stream.json
  puridiver stream show stream.json
  puridiver stream verify stream.json
"""
MAKE_EXAMPLES = """\
examples:
  puridiver stream make --data digits --kind blurry --tasks 5 --minor 10 --noise sym-40 --out stream.json
  puridiver stream make --data cifar10 --noise asym-20 --seed 3 --holdout 1000 --out stream.json
  puridiver stream make --data cifar10 --kind disjoint --noise asym-40 --noise-map spr-cifar10 --out spr.json
  puridiver stream make --data cifar10 --splits splits/cifar10.npz --official sym40:1 --out official.json
  puridiver stream make --from pictures/ --test-share 0.2 --out mine.json
  puridiver stream make --from pictures.csv --test-share 0.2 --kind time --bad-files skip --out mine.json
  puridiver stream make --data cifar10 --noise human:worst --noise-file CIFAR-10_human.pt --out human.json
  puridiver stream make --data cifar10 --noise matrix:T.csv --out mine.json
  puridiver stream make --data cifar10 --imbalance 0.01 --noise sym-20 --out long-tailed.json
"""
SHOW_EXAMPLES = """\
examples:
  puridiver stream show stream.json
  puridiver stream show stream.json --json
  puridiver stream show stream.json other.json --picture streams.png   which labels come when, side by side
"""
VERIFY_EXAMPLES = """\
examples:
  puridiver stream verify stream.json
  puridiver stream verify stream.json --data my_images.npz --json
  puridiver stream verify mine.json --data pictures/ --test-share 0.2   as in `puridiver stream make`
  puridiver stream verify runs/mine/manifest.json                       a run remembers how its files were read
  puridiver stream verify mine.json       one made by hand (kind custom): its data, rows and share of wrong labels
"""

# Flag (as argparse stores it) -> option of make_stream, for those that pass unchanged.
PLAIN_OPTIONS = {
    "kind": "kind", "tasks": "n_tasks", "seed": "seed", "holdout": "holdout", "cut_by": "cut_by", "noise": "noise",
    "noise_file": "noise_file", "imbalance": "imbalance",
}  # fmt: skip

READ_BY = ("--test-share", "--image-size", "--bad-files", "--trust-labels")  # which are no part of a stream


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    stream = add_command(subparsers, "stream", "make, show and verify streams", EXAMPLES)
    actions = add_actions(stream)
    _add_make(actions)

    show = add_command(actions, "show", "show a manifest: classes by task, noise asked and realised", SHOW_EXAMPLES)
    show.add_argument("files", nargs="+", type=Path, metavar="FILE", help="the manifest, or several")
    show.add_argument("--picture", type=Path, metavar="FILE", help="draw which labels come when: .png, .svg or .pdf")
    _add_json(show)
    show.set_defaults(handler=show_stream)

    verify = add_command(
        actions, "verify", "check a manifest against its data; exit 0 good, 1 problems found", VERIFY_EXAMPLES
    )
    verify.add_argument("file", type=Path, metavar="FILE", help="the manifest")
    verify.add_argument("--data", metavar="NAME", help="the data (default: the name in the manifest)")
    _add_file_options(verify)
    _add_data_root(verify)
    _add_json(verify)
    # What is not said is that of the run whose folder the manifest lies in.
    verify.set_defaults(handler=verify_stream, bad_files=None, trust_labels=None)


def _add_make(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    make = add_command(actions, "make", "make a stream and write its manifest", MAKE_EXAMPLES)
    data = make.add_mutually_exclusive_group()
    data.add_argument("--data", default="digits", metavar="NAME", help="a name of `puridiver data list`, or an .npz")
    data.add_argument(
        "--from",
        dest="source_path",
        type=Path,
        metavar="PATH",
        help="your own images: a folder for each class, or a .csv, .jsonl or .parquet table; says what it found",
    )
    _add_file_options(make)
    make.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the manifest goes")
    make.add_argument("--force", action="store_true", help="replace FILE if it is there")
    # No defaults below: those of make_stream hold, and --official can tell what was asked for.
    make.add_argument(
        "--kind", choices=("blurry", "disjoint", "time"),
        help="how tasks are cut (blurry); an order of your own is written by puridiver.write_manifest (docs/DATA.md)",
    )  # fmt: skip
    make.add_argument("--tasks", type=int, metavar="N", help="number of tasks (5)")
    make.add_argument("--minor", metavar="L", help="minor share of a blurry task, percent or fraction (10)")
    make.add_argument(
        "--noise",
        metavar="SPEC",
        help='"sym-40", "asym-20", "instance-30", "human:worst", "none", ... (sym-40; none for data of your own); '
        '"matrix:T.npy" or "matrix:T.csv": row the true class, column the given one, rows sum to 1',
    )
    make.add_argument(
        "--noise-file", type=Path, metavar="FILE", help="for human noise: CIFAR-10N's or CIFAR-100N's file"
    )
    make.add_argument(
        "--noise-map",
        metavar="MAP",
        help='for asymmetric noise: a JSON file {"cat": "dog", ...} of class names or ids, "next", '
        '"pairs" (by lot) or "spr-cifar10" (the usual map of the data, else the next class); the rate is that of the '
        "mapped classes",
    )
    make.add_argument(
        "--imbalance", type=float, metavar="SHARE",
        help="long-tailed classes: the rarest has this share of the most frequent one's images, such as 0.1 (1)",
    )  # fmt: skip
    make.add_argument("--seed", type=int, metavar="N", help="of holdout, noise, tasks and imbalance (0)")
    make.add_argument("--holdout", type=int, metavar="N", help="samples kept out for validation (0)")
    make.add_argument("--cut-by", choices=("given", "true"), help="labels that tasks are cut by (given)")
    told = "import a published stream, such as sym40:1, each task shuffled (sym40:1:listed: in the files' order)"
    make.add_argument("--official", metavar="NOISE:SEED[:listed]", help=told)
    make.add_argument("--splits", type=Path, metavar="PATH", help="published splits: .npz, or a folder")
    _add_data_root(make)
    _add_json(make)
    make.set_defaults(handler=make_stream)


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def _add_data_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-root", type=Path, metavar="DIR", help="the folder of the data sets (default: $PURIDIVER_DATA)"
    )


def _add_file_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--image-size", type=int, metavar="PX", help="of image files once cut and resized (32)")
    parser.add_argument("--test-share", type=float, metavar="SHARE", help="of your own images, kept for testing")
    parser.add_argument("--bad-files", choices=("refuse", "skip"), default="refuse", help="unreadable files (refuse)")
    parser.add_argument("--trust-labels", action="store_true", help="take the labels of your own images for true")


def _load_data(name: str, args: argparse.Namespace) -> DataSource:
    from puridiver import data

    with decoding_progress() as on_progress:
        return data.load(name, args.data_root, _file_options(args), on_progress)


def _file_options(args: argparse.Namespace) -> FileOptions:
    from puridiver.data import FileOptions

    return FileOptions(args.image_size, args.test_share, args.bad_files, args.trust_labels)


def _look_into(args: argparse.Namespace) -> Findings:
    from puridiver import data

    with decoding_progress() as on_progress:
        return data.look_into(args.source_path, data.cache_folder(args.data_root), _file_options(args), on_progress)


def make_stream(args: argparse.Namespace) -> int:
    from puridiver.data import SOURCES

    if args.out.suffix != ".json":
        raise ValueError(f"a manifest should be called *.json, by which a run knows it, but got {args.out}")
    if args.out.exists() and not args.force:
        raise FileExistsError(f"{args.out} is already there: add --force to replace it")
    options = _make_options(args)
    found = None
    if args.source_path is not None:
        found = _look_into(args)
        args.data = str(args.source_path)

    def tell() -> None:
        if found is not None and not args.json:
            print("\n".join([f"{args.source_path}:", *(f"  {line}" for line in found.lines())]))

    with told_afterwards(tell):  # also where the data are refused
        manifest = _made(args, options)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        manifest.save(args.out)
    if args.json:
        told = {} if found is None else {"found": found.to_dict()}
        print(json.dumps({"file": str(args.out), **summary(manifest), **told}, indent=2))
    else:
        print(f"{args.out}: {describe(manifest)}")
        if args.data not in SOURCES:
            print(f"to check it later: {_with_its_data(args, 'stream', 'verify', str(args.out))}")
        print(f"to learn from it: {_with_its_data(args, 'run', '--stream', str(args.out))}")
    return 0


def _made(args: argparse.Namespace, options: dict[str, Any]) -> StreamManifest:
    if args.official is not None:
        return _import_official(args, options)
    from puridiver.runs.config import STANDARD_TASKS
    from puridiver.streams import make_stream as make

    source = _load_data(args.data, args)
    options.setdefault("noise", source.defaults.get("noise", "sym-40"))
    options.setdefault("n_tasks", source.defaults.get("tasks", STANDARD_TASKS))
    if args.noise_map is not None:
        options["noise_map"] = read_noise_map(args.noise_map, source.class_names)
    return make(source, **options)


def _with_its_data(args: argparse.Namespace, *command: str) -> str:
    """A command on the made stream; how files were read is no part of the stream, and has to be said again."""
    from puridiver.data import SOURCES

    words = ["puridiver", *command]
    if args.data not in SOURCES:
        words += ["--data", args.data]
    for name in ("image_size", "test_share", "data_root"):
        if getattr(args, name) is not None:
            words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    words += ["--bad-files", args.bad_files] * (args.bad_files != "refuse") + ["--trust-labels"] * args.trust_labels
    return shlex.join(words)


def _make_options(args: argparse.Namespace) -> dict[str, Any]:
    """The options of make_stream that were asked for, less the noise map, which needs the class names."""
    if args.kind in ("disjoint", "time") and args.minor is not None:
        raise ValueError("--minor is for blurry tasks: others have no minor classes")
    options = {ours: getattr(args, flag) for flag, ours in PLAIN_OPTIONS.items()}
    if args.minor is not None:
        from puridiver.streams.checks import parse_share

        options["minor_share"] = parse_share(args.minor, "--minor")
    return {name: value for name, value in options.items() if value is not None}


def _import_official(args: argparse.Namespace, options: dict[str, Any]) -> StreamManifest:
    from puridiver.streams.published import find_official

    if args.splits is None:
        raise ValueError("--official needs --splits: an .npz file or the folder of the published split files")
    if options or args.noise_map is not None:
        raise ValueError("a published stream is already made: --official goes with --data and --splits alone")
    return find_official(args.official, _load_data(args.data, args), args.splits)


def read_noise_map(spec: str, class_names: tuple[str, ...]) -> dict[int, int]:
    """A class map by name ("next"), or from a JSON object of class names or ids."""
    from puridiver.streams import NAMED_MAPS, named_map

    if spec in NAMED_MAPS:
        return NAMED_MAPS[spec](len(class_names))
    if not Path(spec).exists():
        named_map(spec, len(class_names))  # which says what may be named
    try:
        content = json.loads(Path(spec).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"--noise-map should be a JSON file or {', '.join(NAMED_MAPS)}, but got {spec!r}") from None
    except ValueError as error:
        raise ValueError(f"{spec}: not a JSON file, or a damaged one: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f'{spec}: should hold an object such as {{"cat": "dog"}}, but holds {content!r}')
    return {_class_id(a, class_names): _class_id(b, class_names) for a, b in content.items()}


def _class_id(name: object, class_names: tuple[str, ...]) -> int:
    """A class by its name or else its id; names go first, since a class may be called "7"."""
    if name in class_names:
        return class_names.index(str(name))
    if type(name) is int or (isinstance(name, str) and name.isdecimal()):
        return int(name)
    raise ValueError(f"a class should be a name or an id of {few(class_names)}, but got {name!r}")


def verify_stream(args: argparse.Namespace) -> int:
    problems = _find_problems(args)
    if args.json:
        print(json.dumps({"file": str(args.file), "ok": not problems, "problems": problems}, indent=2))
    elif problems:
        print("\n".join(f"{args.file}: {problem}" for problem in problems))
    else:
        print(f"{args.file}: good")
    return 1 if problems else 0


def _find_problems(args: argparse.Namespace) -> list[str]:
    from puridiver.errors import ManifestError
    from puridiver.streams import StreamManifest
    from puridiver.streams.verify import verify

    try:
        manifest = StreamManifest.load(args.file)
    except ManifestError as error:
        return [str(error).removeprefix(f"{args.file}: ")]
    _fill_in_from_run(args)
    return verify(manifest, _data_of(manifest, args))


def _data_of(manifest: StreamManifest, args: argparse.Namespace) -> DataSource:
    from puridiver.data import SOURCES
    from puridiver.errors import DataError

    try:
        return _load_data(args.data or manifest.source, args)
    except ValueError as error:
        if args.data:
            raise
        raise ValueError(f"{args.file} was made from {manifest.source!r}; add --data PATH ({error})") from error
    except DataError as error:
        if (args.data or manifest.source) in SOURCES:
            raise
        raise DataError(
            f"{error}; a manifest does not tell how image files were read: say {', '.join(READ_BY)} as they were said "
            "when the stream was made"
        ) from error


def _fill_in_from_run(args: argparse.Namespace) -> None:
    """Of a manifest in a run's folder: where the run had its data and how it read them, where the user says nothing."""
    from puridiver.runs.config import RunConfig
    from puridiver.runs.folder import CONFIG, MANIFEST, RunFolder

    begun = RunFolder(args.file.parent).read(CONFIG) if args.file.name == MANIFEST else None
    config = {**vars(RunConfig()), **(begun or {}).get("config", {})}
    of_manifest = config["stream"].endswith(".json") and config["data"] == RunConfig.data  # which names the data itself
    if begun is not None and not args.data and not of_manifest:
        args.data = config["data"]
    if args.data_root is None and config["data_root"]:
        args.data_root = Path(config["data_root"])
    for name in ("image_size", "test_share", "bad_files", "trust_labels"):
        if getattr(args, name) is None:
            setattr(args, name, config[name])
