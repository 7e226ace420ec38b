"""Make, show and verify streams.

Examples:
  puridiver stream make --data digits --out stream.json
  puridiver stream show stream.json
  puridiver stream verify stream.json
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli.flags import Arg, Force, Json, Opt, absolute_places, is_place, settings_flags
from puridiver.cli.output import Progress, percent, say, say_json, say_table, tell
from puridiver.errors import DataError, ManifestError
from puridiver.runs.config import Role, RunConfig, fields_of

if TYPE_CHECKING:
    from puridiver.data import DataSource
    from puridiver.streams import StreamManifest

READ_BY = ("image_size", "test_share", "bad_files", "trust_labels", "data_root")  # no part of a stream


@settings_flags([*fields_of(Role.SOURCE, Role.STREAM, Role.PLACE), "seed"])
def make(
    settings: dict[str, Any],
    out: Annotated[Path, Opt("file of the stream, *.json", "FILE")],
    from_: Annotated[str | None, Opt("your own images; the same as --data PATH", "PATH", name="--from")] = None,
    force: Force = False,
    json: Json = False,
) -> int:
    """Make a stream and write it to a file. Of your own images it also says what they hold.

    Examples:
      puridiver stream make --data digits --stream blurry-10 --tasks 5 --noise sym-40 --out stream.json
      puridiver stream make --from pictures/ --test-share 0.2 --out mine.json
          says how many images, classes, duplicates and bad files there are
      puridiver stream make --from pictures.csv --test-share 0.2 --stream time --bad-files skip --out mine.json
      puridiver stream make --data cifar10 --stream official:sym40:1 --splits splits/ --out official.json
    """
    from puridiver.runs.resolve import load_source, resolve_run_stream

    if out.suffix != ".json":
        raise ValueError(f"a stream should be called *.json, by which a run knows it, but got {out}")
    if out.exists() and not force:
        raise FileExistsError(f"{out} is already there: add --force to replace it")
    if from_:
        if "data" in settings:
            raise ValueError("--from and --data both name the data: say one of them")
        settings["data"] = from_
    config = RunConfig(**absolute_places(settings))
    with Progress() as progress:
        found = _findings(config, progress)
        if found is not None and not json:  # also where the data are refused
            say("\n".join([f"{config.data}:", *(f"  {line}" for line in found.lines())]))
        manifest = resolve_run_stream(config, load_source(config, progress.decoding))
    out.parent.mkdir(parents=True, exist_ok=True)
    manifest.save(out)
    if json:
        say_json({"file": str(out), **summary(manifest), **({"found": found.to_dict()} if found else {})})
        return 0
    say(f"{out}: {describe(manifest)}")
    words = [*(["--data", config.data] if is_place("data", config.data) else []), *_reading_words(config)]
    if words:
        say(f"to check it later: {shlex.join(['puridiver', 'stream', 'verify', str(out), *words])}")
    say(f"to learn from it: {shlex.join(['puridiver', 'run', '--stream', str(out), *words])}")
    return 0


def _findings(config: RunConfig, progress: Progress) -> Any:
    """What the user's own image files hold; None for other data."""
    from puridiver import data
    from puridiver.runs.resolve import file_options

    if not is_place("data", config.data) or config.data.endswith(".npz"):
        return None
    root = data.cache_folder(Path(config.data_root) if config.data_root else None)
    return data.look_into(Path(config.data), root, file_options(config), progress.decoding)


def _reading_words(config: RunConfig) -> list[str]:
    """How files were read, as flags: a stream does not record it."""
    changed = {name: value for name, value in config.changed().items() if name in READ_BY}
    return [
        word
        for name, value in changed.items()
        for word in (f"--{name.replace('_', '-')}", *([] if value is True else [str(value)]))
    ]


def show(
    files: Annotated[list[Path], Arg("FILE", "streams to show")],
    picture: Annotated[Path | None, Opt("draw which labels come when: .png, .svg or .pdf", "FILE")] = None,
    json: Json = False,
) -> int:
    """Show streams: classes by task, noise asked for and realised.

    Examples:
      puridiver stream show stream.json
      puridiver stream show stream.json --json
      puridiver stream show stream.json other.json --picture streams.png
          which labels come when, side by side
    """
    from puridiver.streams import StreamManifest

    if picture is not None:
        from puridiver.report.style import check_installed, check_kind

        check_kind(picture)  # before anything is read or printed
        check_installed("plot", "matplotlib")
    manifests = [StreamManifest.load(path) for path in files]
    if json:
        found = [
            {"file": str(path), **summary(manifest), "counts": manifest.counts().tolist(),
             "late_minor": _minor_shares(manifest, late=True)}
            for path, manifest in zip(files, manifests, strict=True)
        ]  # fmt: skip
        say_json(found[0] if len(found) == 1 else found)
    else:
        for path, manifest in zip(files, manifests, strict=True):
            _print(path, manifest)
    if picture is not None:
        from puridiver.report.figures import save
        from puridiver.report.figures.mix import draw_mix

        titles = [str(path.with_suffix("")) for path in files]
        tell(save(draw_mix(dict(zip(titles, manifests, strict=True))), picture))
    return 0


def summary(manifest: StreamManifest) -> dict[str, Any]:
    """All of a stream but the long lists."""
    long = ("holdout", "order", "labels")
    counts = {"samples": len(manifest), "holdout_samples": len(manifest.holdout)}
    content = {name: value for name, value in manifest.to_dict().items() if name not in long}
    return {**content, **counts, "content_hash": manifest.content_hash}


def describe(manifest: StreamManifest) -> str:
    """One line on a stream."""
    from puridiver.streams import noise_name

    blur = f"-{manifest.minor_share * 100:g}" if manifest.minor_share else ""
    noise, rate = noise_name(manifest.noise, manifest.noise_rate), manifest.realised_noise
    realised = "wrong labels not known" if rate is None else f"{rate:.2%} realised"
    words = f"noise {noise} ({realised})"
    if rate and manifest.noise == "none":
        words = f"labels as they came ({rate:.2%} wrong of those whose true label is known)"
    tailed = f", imbalance {manifest.imbalance:g}" if manifest.imbalance < 1 else ""
    seed = "" if manifest.kind == "custom" else f", seed {manifest.seed}"  # it has none
    tasks = "1 task" if manifest.n_tasks == 1 else f"{manifest.n_tasks} tasks"
    return f"{manifest.source}, {manifest.kind}{blur}{tailed}, {len(manifest):,} samples in {tasks}, {words}{seed}"


def _print(path: Path, manifest: StreamManifest) -> None:
    names, counts = manifest.class_names, manifest.counts()
    say(f"{path}: {describe(manifest)}")
    if manifest.noise_map:
        flips = ", ".join(f"{names[a]} to {names[b]}" for a, b in sorted(manifest.noise_map.items()))
        say(f"wrong labels turn {flips}")
    if manifest.noise_matrix:
        right = [f"{name} {row[i]:.3g}" for i, (name, row) in enumerate(zip(names, manifest.noise_matrix, strict=True))]
        say(f"chance of a right label by the noise matrix: {', '.join(right)}")
    rows: list[Sequence[str]] = []
    for label, per_task in enumerate(counts.tolist()):
        major = (label in group for group in manifest.major_classes)
        rows.append(
            [names[label], *(f"{n:,}{'*' if is_major else ' '}" for n, is_major in zip(per_task, major, strict=True))]
        )
    rows.append(["all", *(f"{n:,} " for n in counts.sum(0).tolist())])
    rows.append(["minor share", *map(percent, _minor_shares(manifest))])
    rows.append(["... of the last tenth", *map(percent, _minor_shares(manifest, late=True))])
    headings = ["class", *(f"task {task + 1}>" for task in range(manifest.n_tasks))]
    say_table(rows, headings, "samples by given label (* major)")
    say(f"hash {manifest.content_hash}")


def _minor_shares(manifest: StreamManifest, late: bool = False) -> list[float | None]:
    """The share of each task, or of its last tenth, whose label is not major; None for a task without samples."""
    found: list[float | None] = []
    for task, major in enumerate(manifest.major_classes):
        labels = manifest.labels[manifest.task_slice(task)].tolist()
        labels = labels[-max(1, len(labels) // 10) :] if late else labels
        found.append(sum(label not in major for label in labels) / len(labels) if labels else None)
    return found


@settings_flags(("data", *READ_BY))
def verify(
    settings: dict[str, Any],
    file: Annotated[Path, Arg("FILE", "the stream")],
    json: Json = False,
) -> int:
    """Check a stream against its data. Exit code 0: good; 1: problems found.

    Of a stream in the folder of a run, the run remembers where its data are and how files were read.

    Examples:
      puridiver stream verify stream.json
      puridiver stream verify mine.json --data pictures/ --test-share 0.2
          as in `puridiver stream make`
      puridiver stream verify runs/mine/manifest.json --json
    """
    problems = _problems(file, absolute_places(settings))
    if json:
        say_json({"file": str(file), "ok": not problems, "problems": problems})
    else:
        say("\n".join(f"{file}: {problem}" for problem in problems or ["good"]))
    return int(bool(problems))


def _problems(file: Path, settings: dict[str, Any]) -> list[str]:
    from puridiver.streams import StreamManifest
    from puridiver.streams.verify import verify as find_problems

    try:
        manifest = StreamManifest.load(file)
    except ManifestError as error:
        return [str(error).removeprefix(f"{file}: ")]
    return find_problems(manifest, _data_of(manifest, file, settings))


def _data_of(manifest: StreamManifest, file: Path, settings: dict[str, Any]) -> DataSource:
    from puridiver.data import SOURCES
    from puridiver.runs.folder import CONFIG, MANIFEST, RunFolder
    from puridiver.runs.resolve import load_source

    begun = RunFolder(file.parent).read(CONFIG) if file.name == MANIFEST else None
    config = RunConfig.of_dict(begun["config"]).of_role(Role.SOURCE, Role.PLACE) if begun else {}
    known = {name: value for name, value in config.items() if name in READ_BY}
    if "data" not in settings:
        made_of_stream = config.get("stream", "").endswith(".json") and config["data"] == RunConfig.data
        known["data"] = config["data"] if config and not made_of_stream else manifest.source
    chosen = RunConfig(**{**known, **settings})
    try:
        with Progress() as progress:
            return load_source(chosen, progress.decoding)
    except (DataError, ValueError) as error:
        if chosen.data in SOURCES:
            raise
        flags = ", ".join("--" + name.replace("_", "-") for name in READ_BY[:4])
        raise DataError(f"{error}; say --data PATH, and {flags} as they were said when the stream was made") from error


ACTIONS = (make, show, verify)
