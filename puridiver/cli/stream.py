"""Make, show and verify streams.

Examples:
  puridiver stream make --data digits --out stream.json
  puridiver stream show stream.json
  puridiver stream verify stream.json
"""

import shlex
from pathlib import Path
from typing import Annotated, Any

from puridiver import data
from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, percent, say, say_problems, say_table
from puridiver.data import image_files
from puridiver.errors import ManifestError
from puridiver.runs.config import SETTINGS, Role, RunConfig
from puridiver.runs.resolve import data_of, resolve, resolve_run_stream
from puridiver.streams import StreamManifest, noise_name
from puridiver.streams.manifest import check_belongs

READ_BY = ("image_size", "test_share", "bad_files", "trust_labels", "data_root")  # no part of a stream
MAKING = (Role.SOURCE, Role.STREAM, Role.PLACE)


@flags.settings_flags([name for name, field in SETTINGS.items() if field.role in MAKING or name == "seed"])
def make(
    settings: dict[str, Any],
    out: Annotated[Path, Opt("file of the stream, *.json", "FILE")],
    force: flags.Force = False,
) -> int:
    """Make a stream and write it to a file. Of your own images it also says what they hold.

    Examples:
      puridiver stream make --data digits --stream blurry-10 --tasks 5 --noise sym-40 --out stream.json
      puridiver stream make --data pictures.csv --test-share 0.2 --stream time --bad-files skip --out mine.json
      puridiver stream make --data cifar10 --stream official:sym40:1 --splits splits/ --out official.json
    """
    if out.suffix != ".json":
        raise ValueError(f"a stream should be called *.json, by which a run knows it, but got {out}")
    flags.check_new(out, force)
    config = RunConfig(**flags.absolute_places(settings))
    with Progress() as progress:
        if data.own_kind(config.data) == "files":
            _, root, options = data_of(config)
            found = image_files.describe(Path(config.data), root or data.default_root(), options, progress.count)
            say_table(found, ("", ""), config.data)  # also where the data are refused
        source = data.load(*data_of(config), progress.count)
        manifest = resolve_run_stream(config, resolve(config, source), source)
    out.parent.mkdir(parents=True, exist_ok=True)
    manifest.save(out)
    say(f"{out}: {describe(manifest)}")
    again = ", with the same --data and options that read it" if data.own_kind(config.data) else ""
    say(f"to learn from it: puridiver run --stream {shlex.quote(str(out))}{again}")
    return 0


def show(file: Annotated[Path, Arg("FILE", "the stream")]) -> int:
    """Show a stream: its noise, and how many samples of each class come in each task.

    Examples:
      puridiver stream show stream.json
      puridiver stream show runs/a/manifest.json
    """
    made = StreamManifest.load(file)
    say(f"{file}: {describe(made)}; hash {made.content_hash}")
    rows = [[name, *counts] for name, counts in zip(made.class_names, made.counts(), strict=True)]
    say_table(rows, ["class", *(f"task {task + 1}>" for task in range(made.n_tasks))], "samples by given label")
    return 0


def describe(manifest: StreamManifest) -> str:
    """One line on a stream."""
    blur, wrong = manifest.minor_share, manifest.realised_noise
    shares = [share for share in (manifest.disjoint_share, blur or None) if share is not None]
    kind = "-".join([manifest.kind, *(f"{share * 100:g}" for share in shares)])
    noise = f"{noise_name(manifest.noise, manifest.noise_rate)} ({percent(wrong)} of labels wrong)"
    size = f"{len(manifest):,} samples, {manifest.n_tasks} tasks"
    size += f", imbalance {manifest.imbalance:g}" if manifest.imbalance else ""
    return f"{manifest.source}, {kind}, {size}, noise {noise}, seed {manifest.seed}"


@flags.settings_flags(("data", *READ_BY))
def verify(settings: dict[str, Any], file: Annotated[Path, Arg("FILE", "the stream")]) -> int:
    """Check a stream against its data. Exit code 0: good; 1: problems found.

    Name data of your own, and the options that read them, as in `puridiver stream make`.

    Examples:
      puridiver stream verify stream.json
      puridiver stream verify mine.json --data pictures/ --test-share 0.2
    """
    problems = []
    try:
        manifest = StreamManifest.load(file)
        config = RunConfig(**{"data": manifest.source, **flags.absolute_places(settings)})
        with Progress() as progress:
            check_belongs(data.load(*data_of(config), progress.count), manifest)
    except ManifestError as error:
        problems = [str(error).removeprefix(f"{file}: ")]
    return say_problems(file, problems)


ACTIONS = (make, show, verify)
