"""Make, show and verify streams.

Examples:
  puridiver stream make --data digits --out stream.json
  puridiver stream show stream.json
  puridiver stream verify stream.json
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, percent, say, say_json, say_table, tell
from puridiver.errors import DataError, ManifestError
from puridiver.runs.config import Role, RunConfig, fields_of

if TYPE_CHECKING:
    from puridiver.streams import StreamManifest

READ_BY = ("image_size", "test_share", "bad_files", "trust_labels", "data_root")  # no part of a stream


@flags.settings_flags([*fields_of(Role.SOURCE, Role.STREAM, Role.PLACE), "seed"])
def make(
    settings: dict[str, Any],
    out: Annotated[Path, Opt("file of the stream, *.json", "FILE")],
    force: flags.Force = False,
    json: flags.Json = False,
) -> int:
    """Make a stream and write it to a file. Of your own images it also says what they hold.

    Examples:
      puridiver stream make --data digits --stream blurry-10 --tasks 5 --noise sym-40 --out stream.json
      puridiver stream make --data pictures/ --test-share 0.2 --out mine.json
          says how many images, classes, duplicates and bad files there are
      puridiver stream make --data pictures.csv --test-share 0.2 --stream time --bad-files skip --out mine.json
      puridiver stream make --data cifar10 --stream official:sym40:1 --splits splits/ --out official.json
    """
    from puridiver import data
    from puridiver.data import image_files
    from puridiver.runs.resolve import file_options, load_source, resolve_run_stream

    if out.suffix != ".json":
        raise ValueError(f"a stream should be called *.json, by which a run knows it, but got {out}")
    if out.exists() and not force:
        raise FileExistsError(f"{out} is already there: add --force to replace it")
    config = RunConfig(**flags.absolute_places(settings))
    own, found = data.own_kind(config.data), None
    with Progress() as progress:
        if own == "files":
            root = Path(config.data_root or data.default_root())
            found = image_files.inspect(Path(config.data), root, file_options(config), progress.count)
            if not json:  # also where the data are refused
                say("\n  ".join([f"{config.data}:", *image_files.describe(found)]))
        manifest = resolve_run_stream(config, load_source(config, progress.count))
    out.parent.mkdir(parents=True, exist_ok=True)
    manifest.save(out)
    if json:
        say_json({"file": str(out), **summary(manifest), **({"found": found} if found else {})})
        return 0
    say(f"{out}: {describe(manifest)}")
    words = ["--data", config.data] if own else []
    for name in READ_BY:  # how files were read is no part of a stream
        if (value := config.changed().get(name)) is not None:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    say(f"to check it: {shlex.join(['puridiver', 'stream', 'verify', str(out), *words])}")
    say(f"to learn from it: {shlex.join(['puridiver', 'run', '--stream', str(out), *words])}")
    return 0


def show(
    files: Annotated[list[Path], Arg("FILE", "streams to show")],
    picture: Annotated[Path | None, Opt("draw which labels come when: .png, .svg or .pdf", "FILE")] = None,
    json: flags.Json = False,
) -> int:
    """Show streams: classes by task, noise asked for and realised.

    Examples:
      puridiver stream show stream.json
      puridiver stream show stream.json --json
      puridiver stream show stream.json other.json --picture streams.png
          which labels come when, side by side
    """
    from puridiver.streams import StreamManifest

    manifests = [(str(path), StreamManifest.load(path)) for path in files]
    if picture:
        from puridiver.report.figures import save
        from puridiver.report.figures.mix import draw_mix

        tell(save(draw_mix({path.removesuffix(".json"): made for path, made in manifests}), picture))
    if json:
        say_json([{"file": path, **summary(made)} for path, made in manifests])
        return 0
    for path, made in manifests:
        names, counts, tasks = made.class_names, made.counts(), range(made.n_tasks)
        say(f"{path}: {describe(made)}")
        if made.noise_map:
            say(
                f"wrong labels turn {', '.join(f'{names[a]} to {names[b]}' for a, b in sorted(made.noise_map.items()))}"
            )
        rows = [
            [name, *(f"{counts[id, task]:,}{'*' if id in made.major_classes[task] else ' '}" for task in tasks)]
            for id, name in enumerate(names)
        ]
        rows += [
            ["all", *(f"{n:,} " for n in counts.sum(0).tolist())],
            ["minor share", *map(percent, minor_shares(made))],
        ]
        say_table(rows, ["class", *(f"task {task + 1}>" for task in tasks)], "samples by given label (* major)")
        say(f"hash {made.content_hash}")
    return 0


def minor_shares(manifest: StreamManifest) -> list[float | None]:
    """The share of each task whose label is not major in it; None for a task without samples."""
    counts = manifest.counts()
    major = [counts[list(group), task].sum() for task, group in enumerate(manifest.major_classes)]
    return [float(1 - part / all) if all else None for part, all in zip(major, counts.sum(0), strict=True)]


def summary(manifest: StreamManifest) -> dict[str, Any]:
    """All of a stream but the long lists."""
    content = {name: value for name, value in manifest.to_dict().items() if name not in ("holdout", "order", "labels")}
    counts = {"samples": len(manifest), "holdout_samples": len(manifest.holdout), "counts": manifest.counts().tolist()}
    return {**content, **counts, "minor_shares": minor_shares(manifest), "content_hash": manifest.content_hash}


def describe(manifest: StreamManifest) -> str:
    """One line on a stream."""
    from puridiver.streams import noise_name

    blur = f"-{manifest.minor_share * 100:g}" if manifest.minor_share else ""
    rate = manifest.realised_noise
    realised = "wrong labels not known" if rate is None else f"{rate:.2%} realised"
    noise = f"noise {noise_name(manifest.noise, manifest.noise_rate)} ({realised})"
    size = f"{len(manifest):,} samples in {manifest.n_tasks} task{'s' * (manifest.n_tasks != 1)}"
    return f"{manifest.source}, {manifest.kind}{blur}, {size}, {noise}, seed {manifest.seed}"


@flags.settings_flags(("data", *READ_BY))
def verify(settings: dict[str, Any], file: Annotated[Path, Arg("FILE", "the stream")], json: flags.Json = False) -> int:
    """Check a stream against its data. Exit code 0: good; 1: problems found.

    Of a stream in the folder of a run, the run remembers where its data are and how files were read.

    Examples:
      puridiver stream verify stream.json
      puridiver stream verify mine.json --data pictures/ --test-share 0.2
          as in `puridiver stream make`
      puridiver stream verify runs/mine/manifest.json --json
    """
    problems = _problems(file, flags.absolute_places(settings))
    if json:
        say_json({"file": str(file), "ok": not problems, "problems": problems})
    else:
        say("\n".join(f"{file}: {problem}" for problem in problems or ["good"]))
    return int(bool(problems))


def _problems(file: Path, settings: dict[str, Any]) -> list[str]:
    from puridiver.data import SOURCES
    from puridiver.runs.folder import CONFIG, MANIFEST, RunFolder
    from puridiver.runs.resolve import load_source
    from puridiver.streams import StreamManifest
    from puridiver.streams.build import verify as find_problems

    try:
        manifest = StreamManifest.load(file)
    except ManifestError as error:
        return [str(error).removeprefix(f"{file}: ")]
    begun = (RunFolder(file.parent).read(CONFIG) if file.name == MANIFEST else None) or {}
    known = {name: value for name, value in begun.get("config", {}).items() if name in ("data", *READ_BY)}
    if not flags.is_place("data", known.get("data", "digits")):
        known["data"] = manifest.source
    config = RunConfig(**{**known, **settings})
    try:
        with Progress() as progress:
            return find_problems(manifest, load_source(config, progress.count))
    except (DataError, ValueError) as error:
        if config.data in SOURCES:
            raise
        how = ", ".join("--" + name.replace("_", "-") for name in READ_BY)
        raise DataError(f"{error}; say --data PATH, and {how} as they were said when the stream was made") from error


ACTIONS = (make, show, verify)
