"""`puridiver audit`: which labels of a set look wrong."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puridiver.cli.flags import (
    Arg,
    Assignments,
    Force,
    Json,
    Opt,
    Plugins,
    Quiet,
    Resume,
    check_outside,
    is_place,
    options_of,
    settings_flags,
)
from puridiver.cli.output import Progress, note, percent, say, say_json, say_table, tell
from puridiver.errors import DataError, few

if TYPE_CHECKING:
    from puridiver.auditing.folder import LabelledSet
    from puridiver.auditing.report import AuditReport
    from puridiver.auditing.settings import AuditSettings
    from puridiver.data.base import DataSource

SHARED = ("data_root", "image_size", "bad_files", "test_share", "memory", "epochs", "network", "device", "seed")
SHOWN = 10  # suspects on the terminal


@settings_flags(SHARED)
def audit(
    ctx: typer.Context,
    settings: dict[str, Any],
    data: Annotated[
        str | None, Arg("DATA", "what `puridiver run --data` takes; not needed where an audit goes on")
    ] = None,
    out: Annotated[Path | None, Opt("write suspects.csv, audit.html and all else there", "FOLDER")] = None,
    split: Annotated[str | None, Opt("part to audit (default: train)", choices=("train", "test"))] = None,
    limit: Annotated[int | None, Opt("audit only N samples, drawn at random", least=2)] = None,
    passes: Annotated[int | None, Opt("learners that each see and judge the set (default: 2)")] = None,
    parts: Annotated[int | None, Opt("train on the memory after so many equal parts of the set (default: 2)")] = None,
    plant: Annotated[
        str | None, Opt("put labels wrong first (sym-RATE, asym-RATE) and say how many were found", "NOISE")
    ] = None,
    corrections: Annotated[Path | None, Opt("go on with the labels in the column corrected_label", "CSV")] = None,
    assignments: Assignments = None,
    resume: Resume = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
    plugins: Plugins = None,
) -> int:
    """List the labels of a set that look wrong.

    Examples:
      puridiver audit my-images.npz --out audits/mine
          suspects.csv, audit.html, and what cleanlab reads, in a folder
      puridiver audit digits --plant sym-20
          see it work: put 20 % of the labels of known data wrong and say how many were found
      puridiver audit --out audits/mine --corrections corrected.csv
          go on with labels that you corrected in suspects.csv or on the page
      puridiver audit --out audits/mine --resume
          continue an interrupted audit
    """
    from puridiver.auditing.folder import AuditFolder

    said = {"data": data, "split": split, "limit": limit, "passes": passes, "parts": parts, "plant": plant,
            "assignments": assignments or None, **settings}  # fmt: skip
    said = {name: value for name, value in said.items() if value is not None}
    _check_folder(out, resume, corrections, force)
    begun = AuditFolder(out).asked() if out and (resume or corrections) and not force else {}
    asked = {**begun, **said}
    if "data" not in asked:
        where = f"there is no audit in {out} to go on with: is the name right? Or " if resume or corrections else ""
        raise ValueError(f"{where}name the data to audit, as in `puridiver audit my-images.npz`")
    if (recalled := _words({name: value for name, value in begun.items() if name not in said})) and not quiet:
        tell(f"as the audit was begun: {shlex.join(recalled)}")
    if out:
        check_outside(asked["data"], out)
        if is_place("data", asked["data"]):
            AuditFolder(out).check_spares(Path(asked["data"]))
    with Progress(hidden=quiet or json) as progress:
        source, labelled, true = _load(asked, progress, moved="data" not in said)
    chosen = _settings(asked, source)
    started = time.perf_counter()
    with Progress(hidden=quiet or json) as progress:
        report = _run(out, labelled, chosen, _corrections(corrections, labelled), force, asked, progress, ctx.obj)
    summary = summarise(report, asked["data"], chosen, time.perf_counter() - started)
    if source.left_out:
        summary["left_out"] = list(source.left_out)
        note(f"left out, since they cannot be read: {few(source.left_out, 3)}")
    if true is not None:
        summary["planted" if "plant" in asked else "known"] = found_of_truth(report, true)
    if out:
        _write(out, report, labelled, summary)
    if json:
        say_json(summary)
        return 0
    _print(report, summary)
    if out and not quiet:
        tell(f"audit folder: {out}; open {out}/audit.html")
    return 0


def _check_folder(out: Path | None, resume: bool, corrections: Path | None, force: bool) -> None:
    """What would fail at the end, or cost a user's files, must fail before the work."""
    from puridiver.auditing.folder import INDEX, AuditFolder
    from puridiver.report.style import check_installed
    from puridiver.runs.folder import check_no_run

    goes_on = resume or corrections or force
    if out is None:
        if goes_on:
            raise ValueError("--resume, --corrections and --force need --out FOLDER: the folder of the audit")
        return
    check_no_run(out)
    AuditFolder(out).check_own()
    if (out / INDEX).exists() and not goes_on:
        raise DataError(f"{out} holds an audit: add --resume, --corrections CSV, or --force to replace it")
    check_installed("report", "jinja2", "PIL")


def _words(asked: dict[str, Any]) -> list[str]:
    """Options as one would type them."""
    words = [asked["data"]] if "data" in asked else []
    for name, value in asked.items():
        if name != "data":
            flag = "--set" if name == "assignments" else f"--{name.replace('_', '-')}"
            words += [word for each in (value if isinstance(value, list) else [value]) for word in (flag, str(each))]
    return words


def _load(asked: dict[str, Any], progress: Progress, moved: bool) -> tuple[DataSource, LabelledSet, Any]:
    """The data, what of them is audited, and the true labels (UNKNOWN where nobody knows; None where of no sample)."""
    import numpy as np
    import torch

    from puridiver.auditing.audit import check_classes
    from puridiver.auditing.folder import LabelledSet
    from puridiver.auditing.tables import Carried, carried
    from puridiver.data.sources import is_own
    from puridiver.streams.noise import plant

    source = _source(asked, progress, moved)
    check_classes(source.class_names)
    split, rng = asked.get("split", "train"), np.random.default_rng(asked.get("seed", 0))
    part = getattr(source, split)
    rows = np.arange(len(part))
    if asked.get("limit", len(rows)) < len(rows):
        rows = np.sort(np.random.default_rng(asked.get("seed", 0)).permutation(len(rows))[: asked["limit"]])
    chosen = torch.from_numpy(rows)
    given, true = part.labels[chosen].numpy(), None
    if "plant" in asked:
        true = part.best_labels[chosen].numpy()
        given = plant(true, source, asked["plant"], rng)
        if not 0 < (wrong := int((given != true).sum())) < len(true):
            raise ValueError(
                f"--plant should put some labels wrong and leave some right, but {asked['plant']} puts {wrong} of "
                f"{len(true)} wrong; choose another rate or more samples"
            )
    elif part.true is not None and part.truth_known:
        true = part.true[chosen].numpy()
    shortened = len(rows) < len(part)
    files = getattr(part, "names", None)  # of sets that are made of files
    names = [files[row] if files else f"{split} {row}" for row in rows.tolist()] if files or shortened else None
    place = Path(asked["data"])
    folder = (place if place.is_dir() else place.parent) if files and is_own(asked["data"]) else None
    beside = carried(source, split, rows, folder) if folder else Carried()
    images = part.images[chosen] if shortened else part.images
    return source, LabelledSet(images, given, list(source.class_names), names, folder, beside), true


def _source(asked: dict[str, Any], progress: Progress, moved: bool) -> DataSource:
    """The data. A folder or table without a test part of its own is audited whole, unless the user says otherwise."""
    from puridiver import data as sources
    from puridiver.data.sources import is_own

    data, share = asked["data"], asked.get("test_share")
    if share is None and data not in sources.SOURCES and is_own(data):
        share = 0.0
    options = sources.FileOptions(asked.get("image_size"), share, asked.get("bad_files", "refuse"))
    try:
        if data.endswith(".npz"):
            options.refuse_any(data, but="test_share")
            needs_test = asked.get("split") == "test"
            return sources.load_npz(Path(data), needs_test, test_share=options.test_share, trust_labels=True)
        root = Path(asked["data_root"]) if "data_root" in asked else None
        return sources.load(data, root, options, progress.decoding)
    except (DataError, ValueError) as error:
        if moved and Path(data).is_absolute() and not Path(data).exists():
            raise DataError(f"{error}; if the data have moved, name them before --out") from error
        raise


def _settings(asked: dict[str, Any], source: DataSource) -> AuditSettings:
    """The user's word, then what suits the data; on a CPU the small network, as the others take too long."""
    from puridiver.auditing.settings import AuditSettings
    from puridiver.options import declared
    from puridiver.runtime.device import choose_runtime

    on_cpu = choose_runtime(asked.get("device", "auto")).device.type == "cpu"
    suits = {name: value for name, value in source.defaults.items() if name in declared() and name != "epochs"}
    network = asked.get("network") or ("auto" if on_cpu else source.defaults.get("network", "auto"))
    said = {name: asked[name] for name in ("passes", "parts", "memory", "seed", "epochs", "device") if name in asked}
    chosen = AuditSettings(**said, network=network, options={**suits, **options_of(asked.get("assignments"))})
    return chosen.with_network(source.image_shape)


def _corrections(file: Path | None, labelled: LabelledSet) -> dict[int, int]:
    from puridiver.auditing.corrections import read_corrections

    if file is None:
        return {}
    found = read_corrections(file, labelled.classes, len(labelled.given), labelled.names)
    if not found:
        raise ValueError(f"{file} corrects nothing: its column corrected_label is empty on every line")
    return found


def _run(
    out: Path | None, labelled: LabelledSet, settings: AuditSettings, corrections: dict[int, int], force: bool,
    asked: dict[str, Any], progress: Progress, words: list[str],
) -> AuditReport:  # fmt: skip
    from puridiver.auditing.audit import audit as audit_arrays
    from puridiver.auditing.folder import AuditFolder, audit_in_folder

    progress.start(settings.work(len(labelled.given)))
    if out is None:
        labels = [labelled.classes[label] for label in labelled.given.tolist()]
        return audit_arrays(
            labelled.images, labels, classes=labelled.classes, names=labelled.names, settings=settings,
            advance=progress.advance,
        )  # fmt: skip
    kept = dict(asked)
    for name in ("data", "data_root"):  # so that the audit can go on from any folder
        if name in kept and (name != "data" or is_place(name, kept[name])):
            kept[name] = os.path.abspath(os.path.expanduser(kept[name]))
    try:
        hear = tell if not progress.hidden else lambda text: None
        return audit_in_folder(AuditFolder(out), labelled, settings, corrections, progress.advance, hear, kept, force)
    except KeyboardInterrupt:
        again = [word for word in words if word not in ("--force", "--resume")]
        tell(f"to continue: {shlex.join(['puridiver', *again, '--resume'])}")
        raise


def summarise(report: AuditReport, data: str, settings: AuditSettings, seconds: float) -> dict[str, Any]:
    """What programs read, and the last lines of the page."""
    from puridiver._version import __version__

    noise = report.noise
    return {
        "data": Path(data).name,
        "samples": len(report),
        "classes": len(report.classes),
        "checked": int(report.checked.sum()),
        "suspects": len(report.suspect_rows()),
        "agreement": report.agreement,
        "chance_agreement": report.chance_agreement,
        "noise_rate": noise.rate,
        "noise_interval": [noise.low, noise.high],
        "caution": report.caution,
        "noise_by_class": {
            str(label): {"rate": found.rate, "interval": [found.low, found.high], "labels": found.count}
            for label, found in zip(report.classes, report.noise_by_class, strict=True)
        },
        "settings": settings.to_dict(),
        "seconds": seconds,
        "version": __version__,
    }


def found_of_truth(report: AuditReport, true: Any) -> dict[str, float]:
    """How the audit fared against the true labels that are known, of those that nobody has checked."""
    from puridiver.data.base import UNKNOWN
    from puridiver.metrics.audit import list_quality, ranking_quality

    judged = ~report.checked & (true != UNKNOWN)
    wrong, p_correct = (report.given != true)[judged], report.p_correct[judged]
    found = {"samples": len(wrong), "true_noise_rate": float(wrong.sum() / max(len(wrong), 1))}
    if not 0 < wrong.sum() < len(wrong):  # a review may leave nothing wrong, and nothing to rank
        return found
    return {**found, **ranking_quality(p_correct, wrong), **list_quality(p_correct < 0.5, wrong)}


def _write(folder: Path, report: AuditReport, labelled: LabelledSet, summary: dict[str, Any]) -> None:
    """The page and the summary; the tables are there already."""
    from puridiver.auditing.folder import PAGE, SUMMARY
    from puridiver.files import to_json, write_atomically
    from puridiver.report.audit_page import write_audit_page

    settings = summary["settings"]
    facts = {
        "Data": f"{summary['data']}, {summary['samples']} images",
        "Learners": f"{settings['passes']} passes, {settings['network']} network, seed {settings['seed']}",
        "Files": "suspects.csv, labels.csv, and cleanlab/ beside this page",
        "Software": f"puridiver {summary['version']}; {summary['seconds']:.0f} seconds",
    }
    write_audit_page(report, labelled.images.numpy(), f"Labels of {summary['data']}", facts, folder / PAGE)
    write_atomically(folder / SUMMARY, (to_json(summary, indent=1) + "\n").encode())


def _print(report: AuditReport, summary: dict[str, Any]) -> None:
    from puridiver.auditing.report import truth_words

    low, high = map(percent, summary["noise_interval"])
    left = summary["samples"] - summary["checked"]
    of = (
        f"the {left} labels that nobody has checked ({summary['checked']} are)"
        if summary["checked"]
        else f"{left} labels"
    )
    say(
        f"{summary['suspects']} of {of} are probably wrong; estimated share of wrong labels: "
        f"{percent(summary['noise_rate'])} (95 % interval {low} to {high})"
    )
    if report.caution:
        say(f"note: {report.caution}")
    for kind in {"planted", "known"} & summary.keys():
        say(truth_words(summary[kind], kind))
    rows = [
        (found.name or found.row, found.given_label, found.suggested_label, percent(found.p_correct), found.why)
        for found in report.judgements(report.suspect_rows()[:SHOWN])
    ]
    if rows:
        say_table(rows, ("row", "given", "suggested", "chance right>", "why"), "most doubtful first")
