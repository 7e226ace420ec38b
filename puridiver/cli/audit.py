"""`puridiver audit`: which labels of a set look wrong."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, percent, say, say_json, say_table, tell
from puridiver.errors import DataError, few

if TYPE_CHECKING:
    from puridiver.auditing.folder import LabelledSet
    from puridiver.auditing.report import AuditReport
    from puridiver.auditing.settings import AuditSettings
    from puridiver.data.base import DataSource

SHARED = ("data_root", "image_size", "bad_files", "test_share", "memory", "epochs", "network", "device", "seed")
SHOWN = 10  # suspects on the terminal


@flags.settings_flags(SHARED)
def audit(
    ctx: typer.Context,
    settings: dict[str, Any],
    data: Annotated[str | None, Arg("DATA", "what `puridiver run --data` takes; not needed to go on")] = None,
    out: Annotated[Path | None, Opt("write suspects.csv, audit.html and all else there", "FOLDER")] = None,
    split: Annotated[str | None, Opt("part to audit (default: train)", choices=("train", "test"))] = None,
    limit: Annotated[int | None, Opt("audit only N samples, drawn at random", least=2)] = None,
    passes: Annotated[int | None, Opt("learners that each see and judge the set (default: 2)")] = None,
    parts: Annotated[int | None, Opt("trainings on the memory in each pass (default: 2)")] = None,
    plant: Annotated[str | None, Opt("put labels wrong first (sym-RATE) and say how many were found", "NOISE")] = None,
    corrections: Annotated[Path | None, Opt("go on with the labels in the column corrected_label", "CSV")] = None,
    assignments: flags.Assignments = None,
    resume: flags.Resume = False,
    force: flags.Force = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    plugins: flags.Plugins = None,
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
    from puridiver.auditing.corrections import read_corrections
    from puridiver.auditing.folder import AuditFolder

    said = {"data": data, "split": split, "limit": limit, "passes": passes, "parts": parts, "plant": plant,
            "assignments": assignments or None, **settings}  # fmt: skip
    said = {name: value for name, value in said.items() if value is not None}
    _check_folder(out, resume or corrections is not None or force)
    begun = AuditFolder(out).asked() if out and (resume or corrections) and not force else {}
    asked = {**begun, **said}  # what is not said again is as the audit was begun
    if "data" not in asked:
        where = f"there is no audit in {out} to go on with: is the name right? Or " if resume or corrections else ""
        raise ValueError(f"{where}name the data to audit, as in `puridiver audit my-images.npz`")
    if out:
        flags.check_outside(asked["data"], out)
        if flags.is_place("data", asked["data"]):
            AuditFolder(out).check_spares(Path(asked["data"]))
    with Progress(hidden=quiet or json) as progress:
        source, labelled, true = _load(asked, progress, "data" not in said)
        chosen = _settings(asked, source)
        corrected: dict[int, int] = {}
        if corrections:
            corrected = read_corrections(corrections, labelled.classes, len(labelled.given), labelled.names)
            if not corrected:
                raise ValueError(f"{corrections} corrects nothing: its column corrected_label is empty on every line")
        started = time.perf_counter()
        report = _run(out, labelled, chosen, corrected, force, asked, progress, ctx.obj)
    summary = summarise(report, Path(asked["data"]).name, chosen, time.perf_counter() - started)
    if source.left_out:
        summary["left_out"] = list(source.left_out)
        note(f"left out, since they cannot be read: {few(source.left_out, 3)}")
    if true is not None:
        summary["planted" if "plant" in asked else "known"] = found_of_truth(report, true)
    if out:
        _write(out, report, labelled, summary)
    if json:
        say_json(summary)
    else:
        _print(report, summary)
        tell(f"audit folder: {out}; open {out}/audit.html") if out and not quiet else None
    return 0


def _check_folder(out: Path | None, goes_on: bool) -> None:
    """What would fail at the end, or cost a user's files, must fail before the work."""
    from puridiver.auditing.folder import INDEX, AuditFolder
    from puridiver.report.style import check_installed
    from puridiver.runs.folder import check_no_run

    if out is None:
        if goes_on:
            raise ValueError("--resume, --corrections and --force need --out FOLDER: the folder of the audit")
        return
    check_no_run(out)
    AuditFolder(out).check_own()
    if (out / INDEX).exists() and not goes_on:
        raise DataError(f"{out} holds an audit: add --resume, --corrections CSV, or --force to replace it")
    check_installed("report", "jinja2", "PIL")


def _load(asked: dict[str, Any], progress: Progress, recalled: bool) -> tuple[DataSource, LabelledSet, Any]:
    """The data, what of them is audited, and the true labels (UNKNOWN where nobody knows; None where of no sample)."""
    import numpy as np
    import torch

    from puridiver.auditing.audit import check_classes
    from puridiver.auditing.folder import LabelledSet
    from puridiver.auditing.tables import Carried, carried
    from puridiver.data import load_npz
    from puridiver.streams.noise import plant

    place, split, seed = asked["data"], asked.get("split", "train"), asked.get("seed", 0)
    try:
        if place.endswith(".npz"):
            source = load_npz(Path(place), split == "test", test_share=asked.get("test_share"), trust_labels=True)
        else:
            source = flags.load_data(place, asked, asked.get("image_size"), progress)
    except (DataError, ValueError) as error:
        if recalled and Path(place).is_absolute() and not Path(place).exists():
            raise DataError(f"{error}; if the data have moved, name them before --out") from error
        raise
    check_classes(source.class_names)
    part = getattr(source, split)
    rows = np.arange(len(part))
    if asked.get("limit", len(rows)) < len(rows):
        rows = np.sort(np.random.default_rng(seed).permutation(len(rows))[: asked["limit"]])
    chosen = torch.from_numpy(rows)
    given, true = part.labels[chosen].numpy(), None
    if "plant" in asked:
        true = part.best_labels[chosen].numpy()
        given = plant(true, source, asked["plant"], np.random.default_rng(seed))
        if not 0 < (wrong := int((given != true).sum())) < len(true):
            raise ValueError(f"--plant {asked['plant']} puts {wrong} of {len(true)} labels wrong: choose another rate")
    elif part.true is not None and part.truth_known:
        true = part.true[chosen].numpy()
    files, shortened = part.names, len(rows) < len(part)
    names = [files[row] if files else f"{split} {row}" for row in rows.tolist()] if files or shortened else None
    folder = (
        (Path(place) if Path(place).is_dir() else Path(place).parent)
        if files and flags.is_place("data", place)
        else None
    )
    beside = carried(source, split, rows, folder) if folder else Carried()
    images = part.images[chosen] if shortened else part.images
    return source, LabelledSet(images, given, list(source.class_names), names, folder, beside), true


def _settings(asked: dict[str, Any], source: DataSource) -> AuditSettings:
    """The user's word, then what suits the data; on a CPU the small network, as the others take too long."""
    from puridiver.auditing.settings import AuditSettings
    from puridiver.options import declared
    from puridiver.runtime.device import choose_runtime

    on_cpu = choose_runtime(asked.get("device", "auto")).device.type == "cpu"
    suits = {name: value for name, value in source.defaults.items() if name in declared() and name != "epochs"}
    network = asked.get("network") or ("auto" if on_cpu else source.defaults.get("network", "auto"))
    said = {name: asked[name] for name in ("passes", "parts", "memory", "seed", "epochs", "device") if name in asked}
    options = {**suits, **flags.options_of(asked.get("assignments"))}
    return AuditSettings(**said, network=network, options=options).with_network(source.image_shape)


def _run(
    out: Path | None, labelled: LabelledSet, settings: AuditSettings, corrected: dict[int, int], force: bool,
    asked: dict[str, Any], progress: Progress, words: list[str],
) -> AuditReport:  # fmt: skip
    from puridiver.auditing.audit import audit as audit_arrays
    from puridiver.auditing.folder import AuditFolder, audit_in_folder
    from puridiver.runs.folder import held

    progress.start(settings.work(len(labelled.given)))
    if out is None:
        labels = [labelled.classes[label] for label in labelled.given.tolist()]
        return audit_arrays(
            labelled.images, labels, classes=labelled.classes, names=labelled.names, settings=settings,
            advance=progress.advance,
        )  # fmt: skip
    kept = {name: value for name, value in asked.items() if name in ("data", "data_root")}
    with held(out):
        if force:
            AuditFolder(out).clear()
        try:
            asked = {**asked, **flags.absolute_places(kept)}  # so that the audit can go on from any folder
            hear = (lambda text: None) if progress.hidden else tell
            return audit_in_folder(AuditFolder(out), labelled, settings, corrected, progress.advance, hear, asked)
        except KeyboardInterrupt:
            again = [word for word in words if word not in ("--force", "--resume")]
            tell(f"to continue: {shlex.join(['puridiver', *again, '--resume'])}")
            raise


def summarise(report: AuditReport, data: str, settings: AuditSettings, seconds: float) -> dict[str, Any]:
    """What programs read."""
    from puridiver._version import __version__

    rates = zip(report.classes, report.noise_by_class, strict=True)
    return {
        "data": data,
        "samples": len(report),
        "classes": len(report.classes),
        "checked": int(report.checked.sum()),
        "suspects": len(report.suspect_rows()),
        "agreement": report.agreement,
        "chance_agreement": report.chance_agreement,
        "noise_rate": report.noise.rate,
        "noise_interval": [report.noise.low, report.noise.high],
        "caution": report.caution,
        "noise_by_class": {
            str(label): {"rate": r.rate, "interval": [r.low, r.high], "labels": r.count} for label, r in rates
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
    left, checked = summary["samples"] - summary["checked"], summary["checked"]
    of = f"the {left} labels that nobody has checked ({checked} are)" if checked else f"{left} labels"
    say(f"{summary['suspects']} of {of} are probably wrong")
    say(f"estimated share of wrong labels: {percent(summary['noise_rate'])} (95 % interval {low} to {high})")
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
