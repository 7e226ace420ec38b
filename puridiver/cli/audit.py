"""`puridiver audit`: which labels of a set look wrong."""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, percent, say, say_json, say_table, tell
from puridiver.errors import DataError, few

if TYPE_CHECKING:
    from puridiver.auditing.passes import LabelledSet
    from puridiver.auditing.report import AuditReport

SHARED = ("data_root", "image_size", "bad_files", "test_share", "memory", "epochs", "network", "device", "seed")
SHOWN = 10  # suspects on the terminal
TRUTH = {"true_noise_rate": "wrong", "suspects_recall": "found", "suspects_precision": "precision", "auc": "AUC"}


@flags.settings_flags(SHARED)
def audit(
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
      puridiver audit my-images.npz --out audits/mine     suspects.csv, audit.html and what cleanlab reads
      puridiver audit digits --plant sym-20               put 20 % of known labels wrong and say how many it finds
      puridiver audit --out audits/mine --corrections corrected.csv    go on with labels that you corrected
      puridiver audit --out audits/mine --resume                       continue an interrupted audit
    """
    said = {"data": data, "split": split, "limit": limit, "passes": passes, "parts": parts, "plant": plant,
            "assignments": assignments or None, **settings}  # fmt: skip
    begun = _begun(out, resume or corrections is not None, force)
    asked = {"split": "train", "seed": 0, **begun, **{name: value for name, value in said.items() if value is not None}}
    if "data" not in asked:
        missing = f"there is no audit in {out} to go on with: " if out else ""
        raise ValueError(f"{missing}name the data to audit, as in `puridiver audit my-images.npz`")
    asked |= flags.absolute_places({name: asked[name] for name in ("data", "data_root") if name in asked})
    try:
        with Progress(quiet or json) as progress:
            summary, report = _audit(asked, out, corrections, force, progress)
    except KeyboardInterrupt:
        if out:
            tell(f"to continue: puridiver audit --out {shlex.quote(str(out))} --resume")
        raise
    if summary["left_out"]:
        note(f"left out, since they cannot be read: {few(summary['left_out'], 3)}")
    if json:
        say_json(summary)
        return 0
    _print(report, summary)
    if out and not quiet:
        tell(f"audit folder: {out}; open {out}/audit.html")
    return 0


def _begun(out: Path | None, goes_on: bool, force: bool) -> dict[str, Any]:
    """What the audit to go on with was asked for. What would cost a user's files must fail before the work."""
    from puridiver.auditing.folder import ASKED, AuditFolder
    from puridiver.report.style import check_installed
    from puridiver.runs.folder import check_no_run

    if out is None:
        if goes_on or force:
            raise ValueError("--resume, --corrections and --force need --out FOLDER: the folder of the audit")
        return {}
    check_installed("report", "jinja2", "PIL")
    check_no_run(out)
    begun = {} if force else AuditFolder(out).begun()
    if begun and not goes_on:
        raise DataError(f"{out} holds an audit: add --resume, --corrections CSV, or --force to replace it")
    return {name: value for name, value in begun.get(ASKED, {}).items() if value is not None}


def _audit(
    asked: dict[str, Any], out: Path | None, corrections: Path | None, force: bool, progress: Progress
) -> tuple[dict[str, Any], AuditReport]:
    """Load the data, audit them, write the folder; the summary and the report."""
    from puridiver._version import __version__
    from puridiver.auditing.audit import audit_set, choose_set
    from puridiver.auditing.folder import AuditFolder, audit_in_folder
    from puridiver.auditing.passes import LIMITS, AuditSettings
    from puridiver.auditing.tables import read_corrections
    from puridiver.options import declared

    started, data, split = time.perf_counter(), Path(asked["data"]), asked["split"]
    if out:
        flags.check_outside(asked["data"], out)
        AuditFolder(out).check_own(asked["data"])
    source = flags.load_data(asked["data"], asked, asked.get("image_size"), progress)
    labelled, _, true = choose_set(source, split, asked.get("limit"), asked.get("plant"), asked["seed"])
    if corrections:
        labelled = replace(labelled, corrections=read_corrections(corrections, labelled))
        if not labelled.corrections:
            raise ValueError(f"{corrections} corrects nothing: its column corrected_label is empty on every line")
    suits = {name: value for name, value in source.defaults.items() if name in declared() and name != "epochs"}
    options = {**suits, **flags.options_of(asked.get("assignments"))}
    said = {name: asked[name] for name in (*LIMITS, "network", "device") if name in asked}
    settings = AuditSettings(**said, options=options)
    progress.start(settings.work(len(labelled.original)))
    if out:
        named = flags.is_place("data", asked["data"]) and getattr(source, split).names
        images = os.path.relpath(data if data.is_dir() else data.parent, out) if named else None
        folder, advance = AuditFolder(out), progress.advance
        report = audit_in_folder(folder, labelled, settings, asked=asked, images=images, force=force, advance=advance)
    else:
        report = audit_set(labelled, settings, progress.advance)
    summary = {"data": data.name, **report.summary(), "seconds": time.perf_counter() - started, "version": __version__}
    summary["left_out"] = list(source.left_out)
    if true is not None:
        summary["planted" if "plant" in asked else "known"] = _found_of_truth(report, true)
    if out:
        _write(out, report, labelled, summary)
    return summary, report


def _found_of_truth(report: AuditReport, true: Any) -> dict[str, float]:
    """How the audit fared against the true labels that are known, of those that nobody has checked."""
    from puridiver.data.base import UNKNOWN
    from puridiver.metrics.audit import list_quality, ranking_quality

    judged = ~report.checked & (true != UNKNOWN)
    wrong, p_correct = (report.given != true)[judged], report.p_correct[judged]
    found = {"samples": len(wrong), "true_noise_rate": float(wrong.sum() / max(len(wrong), 1))}
    if 0 < wrong.sum() < len(wrong):  # a review may leave nothing wrong, and nothing to rank
        found |= {**ranking_quality(p_correct, wrong), **list_quality(p_correct < 0.5, wrong)}
    return found


def _write(folder: Path, report: AuditReport, labelled: LabelledSet, summary: dict[str, Any]) -> None:
    """Write the page and the summary; the tables are there already."""
    from puridiver.auditing.folder import PAGE, SUMMARY
    from puridiver.files import to_json, write_atomically
    from puridiver.report.audit_page import write_audit_page

    settings = report.settings
    facts = {
        "Data": f"{summary['data']}, {len(report)} images",
        "Learners": f"{settings.passes} passes, {settings.network} network, seed {settings.seed}",
        "Files": "suspects.csv, labels.csv and cleanlab.npz beside this page",
        "Software": f"puridiver {summary['version']}; {summary['seconds']:.0f} seconds",
    }
    write_audit_page(report, labelled.images.numpy(), f"Labels of {summary['data']}", facts, folder / PAGE)
    write_atomically(folder / SUMMARY, (to_json(summary, indent=1) + "\n").encode())


def _print(report: AuditReport, summary: dict[str, Any]) -> None:
    noise, checked = report.noise, summary["checked"]
    of = f"the {noise.count} labels that nobody has checked ({checked} are)" if checked else f"{noise.count} labels"
    say(f"{summary['suspects']} of {of} are probably wrong")
    interval = f"95 % interval {percent(noise.low)} to {percent(noise.high)}"
    say(f"estimated share of wrong labels: {percent(noise.rate)} ({interval})")
    if report.caution:
        say(f"note: {report.caution}")
    for kind in {"planted", "known"} & summary.keys():
        told = [f"{title} {percent(summary[kind][name])}" for name, title in TRUTH.items() if name in summary[kind]]
        say(f"{kind}, {summary[kind]['samples']} labels: {', '.join(told)}")
    rows = [
        (found.name or found.row, found.given_label, found.suggested_label, percent(found.p_correct), found.why)
        for found in report.judgements(report.suspect_rows()[:SHOWN])
    ]
    if rows:
        say_table(rows, ("row", "given", "suggested", "chance right>", "why"), "most doubtful first")
