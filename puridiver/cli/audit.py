"""`puridiver audit`: which labels of a set look wrong."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from puridiver._version import __version__
from puridiver.auditing.audit import audit_set, choose_set
from puridiver.auditing.folder import PAGE, SUMMARY, audit_in_folder, check_own, read_corrections
from puridiver.auditing.passes import AuditSettings, LabelledSet
from puridiver.auditing.report import AuditReport
from puridiver.cli import flags
from puridiver.cli.flags import Arg, Opt
from puridiver.cli.output import Progress, note, percent, say, say_json, say_table, tell
from puridiver.data.base import UNKNOWN, DataSource
from puridiver.data.images import shown
from puridiver.discovery import import_extra
from puridiver.errors import few
from puridiver.files import to_json, write_atomically
from puridiver.metrics.audit import list_quality, ranking_quality
from puridiver.options import declared
from puridiver.report.audit_page import write_audit_page
from puridiver.runs.folder import check_no_run

SHARED = ("data_root", "image_size", "bad_files", "test_share", "memory", "epochs", "network", "device", "seed")
SHOWN = 10  # suspects on the terminal
TRUTH = {"true_noise_rate": "wrong", "suspects_recall": "found", "suspects_precision": "precision", "auc": "AUC"}


@flags.settings_flags(SHARED)
def audit(
    settings: dict[str, Any],
    data: Annotated[str, Arg("DATA", "what `puridiver run --data` takes")],
    out: Annotated[Path | None, Opt("write suspects.csv, audit.html and all else there", "FOLDER")] = None,
    split: Annotated[Literal["train", "test"], Opt("part to audit (default: train)")] = "train",
    limit: Annotated[int | None, Opt("audit only N samples, drawn at random", least=2)] = None,
    passes: Annotated[int, Opt("learners that each see and judge the set (default: 2)", "N")] = 2,
    parts: Annotated[int, Opt("trainings on the memory in each pass (default: 2)", "N")] = 2,
    plant: Annotated[
        str | None, Opt("make labels wrong first (sym-RATE) and report how many the audit finds", "NOISE")
    ] = None,
    corrections: Annotated[Path | None, Opt("learn the labels in the column corrected_label", "CSV")] = None,
    assignments: flags.Assignments = None,
    force: flags.Force = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    plugins: flags.Plugins = None,
) -> int:
    """List the labels of a set that look wrong.

    The folder keeps your corrections. Repeat the command to audit with them.

    Examples:
      puridiver audit my-images.npz --out audits/mine    suspects.csv, audit.html and what cleanlab reads
      puridiver audit my-images.npz --out audits/mine --corrections corrected.csv    labels that you corrected
      puridiver audit digits --plant sym-20              make 20 % of known labels wrong and report how many it finds
    """
    started = time.perf_counter()
    if out:
        _check_free(out, data)
    elif corrections or force:
        raise ValueError("--corrections and --force need --out FOLDER: the folder of the audit")
    with Progress(quiet or json) as progress:
        source = flags.load_data(data, settings, settings.get("image_size"), progress)
        labelled, true = choose_set(source, split, limit, plant, settings.get("seed", 0))
        if corrections:
            labelled = replace(labelled, corrections=read_corrections(corrections, labelled))
        how = _audit_settings(source, assignments, {"passes": passes, "parts": parts, **settings})
        progress.start(how.work(len(labelled.original)))
        if out:
            images = _image_folder(data, out) if getattr(source, split).names else None
            report = audit_in_folder(out, labelled, how, progress.advance, images, force)
        else:
            report = audit_set(labelled, how, progress.advance)
    summary = {"data": Path(data).name, **report.summary(), **_found_of_truth(report, true, plant)}
    summary |= {"left_out": [*source.left_out], "seconds": time.perf_counter() - started, "version": __version__}
    if out:
        _write(out, report, labelled, summary)
    _show(report, summary, out, json, quiet)
    return 0


def _check_free(out: Path, data: str) -> None:
    """Raise an error, before the work, if the folder cannot hold an audit of these data."""
    import_extra("jinja2", "report")
    check_no_run(out)
    flags.check_outside(data, out)
    check_own(out, data)


def _audit_settings(source: DataSource, assignments: list[str] | None, said: dict[str, Any]) -> AuditSettings:
    """What the user says; the options besides are those that suit the data."""
    suits = {name: value for name, value in source.defaults.items() if name in declared() and name != "epochs"}
    fields = {name: value for name, value in said.items() if name in AuditSettings.__dataclass_fields__}
    return AuditSettings(**fields, options={**suits, **flags.options_of(assignments)})


def _image_folder(data: str, out: Path) -> str | None:
    """Where a user's image files lie, seen from --out."""
    if not flags.is_place("data", data):
        return None
    return os.path.relpath(data if Path(data).is_dir() else Path(data).parent, out)


def _found_of_truth(report: AuditReport, true: np.ndarray | None, plant: str | None) -> dict[str, dict[str, float]]:
    """Compare the audit with the known true labels, among the labels that nobody has checked."""
    if true is None:
        return {}
    judged = ~report.checked & (true != UNKNOWN)
    wrong, p_correct = (report.given != true)[judged], report.p_correct[judged]
    found = {"samples": len(wrong), "true_noise_rate": float(wrong.sum() / max(len(wrong), 1))}
    if 0 < wrong.sum() < len(wrong):  # a review may leave nothing wrong, and nothing to rank
        found |= {**ranking_quality(p_correct, wrong), **list_quality(p_correct < 0.5, wrong)}
    return {"planted" if plant else "known": found}


def _write(folder: Path, report: AuditReport, labelled: LabelledSet, summary: dict[str, Any]) -> None:
    """Write the page and the summary; the tables are there already."""
    settings = report.settings
    facts = {
        "Data": f"{summary['data']}, {len(report)} images",
        "Learners": f"{settings.passes} passes, {settings.network} network, seed {settings.seed}",
        "Files": "suspects.csv, labels.csv and cleanlab.npz beside this page",
        "Software": f"puridiver {__version__}; {summary['seconds']:.0f} seconds",
    }
    write_audit_page(report, shown(labelled.images).numpy(), f"Labels of {summary['data']}", facts, folder / PAGE)
    write_atomically(folder / SUMMARY, (to_json(summary, indent=1) + "\n").encode())


def _show(report: AuditReport, summary: dict[str, Any], out: Path | None, json: bool, quiet: bool) -> None:
    if json:
        say_json(summary)
        return
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
    if summary["left_out"]:
        note(f"left out, since they cannot be read: {few(summary['left_out'], 3)}")
    if out and not quiet:
        tell(f"audit folder: {out}; open {out}/audit.html")
