"""`puridiver audit`: which labels of a set look wrong."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.audit_options import asked_of, recall, told_if_moved
from puridiver.cli.audit_place import check_data_apart, check_options
from puridiver.cli.common import add_command, add_plugin_option, console, decoding_progress
from puridiver.cli.notes import left_out_note

if TYPE_CHECKING:
    from rich.console import Console

    from puridiver.auditing.folder import LabelledSet
    from puridiver.auditing.report import AuditReport
    from puridiver.auditing.settings import AuditSettings
    from puridiver.cli.output import Progress as ProgressBar
    from puridiver.data.base import DataSource

EXAMPLES = """\
examples:
  puridiver audit my-images.npz --out audits/mine
      suspects.csv, audit.html, and what cleanlab reads, in a folder
  puridiver audit digits --plant sym-20 --out audits/try
      see it work: put 20 % of the labels of known data wrong and say how many were found
  puridiver audit --out audits/mine --corrections corrected.csv
      go on with labels that you corrected: in suspects.csv (column corrected_label) or on the page
  puridiver audit --out audits/mine --resume
      continue what was killed or interrupted there
  puridiver audit cifar10 --network resnet18 --passes 2 --out audits/cifar10
      with a GPU
  puridiver audit digits --json | jq .noise_rate
      for programs: the summary as JSON on standard output
"""
SHOWN = 10  # suspects on the terminal


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "audit", "list the labels of a set that look wrong", EXAMPLES)
    parser.add_argument(
        "data", nargs="?", metavar="DATA",
        help="what `puridiver run --data` takes: a name, or a path (needless where an audit goes on)",
    )  # fmt: skip
    parser.add_argument("--data-root", metavar="FOLDER", help="folder that holds the data sets")
    parser.add_argument(
        "--image-size", type=int, metavar="PX", help="of image files once cut and resized (default: 32)"
    )
    parser.add_argument("--bad-files", choices=("refuse", "skip"), help="unreadable image files (default: refuse)")
    parser.add_argument(
        "--test-share",
        type=float,
        metavar="SHARE",
        help="of each class, left out, where your own data have no test part (default: 0)",
    )
    parser.add_argument("--split", choices=("train", "test"), help="part to audit (default: train)")
    parser.add_argument(
        "--limit", type=int, metavar="N", help="audit only N samples, drawn at random, for a quick look"
    )
    parser.add_argument("--out", metavar="FOLDER", help="write suspects.csv, audit.html and all else there")
    _add_settings(parser)
    parser.add_argument(
        "--corrections",
        metavar="CSV",
        help="go on with the labels in its column corrected_label, by the options that the audit was made with",
    )
    parser.add_argument(
        "--plant", metavar="NOISE",
        help="put labels wrong first (sym-RATE or asym-RATE) and say how many of them were found",
    )  # fmt: skip
    parser.add_argument(
        "--resume", action="store_true", help="continue the audit in --out, by the options it was begun with"
    )
    parser.add_argument("--force", action="store_true", help="replace an audit that --out already holds")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON instead of tables")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.set_defaults(handler=handle)


def _add_settings(parser: argparse.ArgumentParser) -> None:
    from puridiver.auditing.settings import AuditSettings

    default = AuditSettings()
    add = parser.add_argument
    add("--passes", type=int, metavar="N",
        help=f"learners that each see the set once and judge it (default: {default.passes})")  # fmt: skip
    add("--parts", type=int, metavar="N",
        help=f"train on the memory after so many equal parts (default: {default.parts})")  # fmt: skip
    add("--memory", type=int, metavar="N", help="samples a memory holds (default: a fifth of the set, 50 to 2,000)")
    add("--epochs", type=int, metavar="N",
        help="memory epochs after each part (default: 15, with a memory below 256 samples 31, below 124 63)",
    )  # fmt: skip
    add("--network",
        help="small, resnet18, resnet32, resnet34 or a plugin's (default: small on a CPU, else by the data)",
    )  # fmt: skip
    add("--device", help="auto, cpu, cuda or cuda:N (default: auto)")
    add("--seed", type=int, metavar="N", help="of the orders and the learners (default: 0)")
    add("--set", action="append", metavar="OPTION=VALUE", dest="assignments",
        help="replace an option of the recipe official; `puridiver methods --options` lists all")  # fmt: skip
    add_plugin_option(parser)


def handle(args: argparse.Namespace) -> int:
    import time

    from rich.console import Console

    errors = Console(stderr=True)
    check_options(args)
    said = args.data
    recall(args, errors)
    check_data_apart(args)
    with told_if_moved(args, said):
        source, labelled, true = _load(args)
    settings = settings_for(args, source)
    started = time.perf_counter()
    report = _run(args, labelled, settings, errors)
    summary = summarise(report, args.data, settings, time.perf_counter() - started)
    if source.left_out:
        summary["left_out"] = list(source.left_out)
        if not args.quiet:
            errors.print(f"note: {left_out_note(source.left_out)}", highlight=False, markup=False)
    if true is not None:
        summary["planted" if args.plant else "known"] = found_of_truth(report, true)
    if args.out:
        _write(Path(args.out), report, labelled, summary)
    if args.json:
        from puridiver.runs.folder import to_json

        sys.stdout.write(to_json(summary, indent=1) + "\n")
    else:
        print_report(report, summary, console())
        if args.out and not args.quiet:
            errors.print(f"audit folder: {args.out}; open {args.out}/audit.html", highlight=False, soft_wrap=True)
    return 0


def _test_share(args: argparse.Namespace) -> float | None:
    """A folder or table that has no test part of its own is audited whole, unless the user says otherwise."""
    from puridiver.data import SOURCES
    from puridiver.data.sources import is_own

    share: float | None = args.test_share
    return 0.0 if share is None and args.data not in SOURCES and is_own(args.data) else share


def _source(args: argparse.Namespace) -> DataSource:
    from puridiver import data

    options = data.FileOptions(args.image_size, _test_share(args), args.bad_files)
    if args.data.endswith(".npz"):
        options.refuse_any(args.data, but="test_share")
        needs_test = args.split == "test"
        return data.load_npz(Path(args.data), needs_test, test_share=options.test_share, trust_labels=True)
    with decoding_progress() as on_progress:
        return data.load(args.data, Path(args.data_root) if args.data_root else None, options, on_progress)


def _planted(args: argparse.Namespace, true: Any, source: DataSource) -> Any:
    """The labels with noise; an error where nothing could be said of it afterwards."""
    import numpy as np

    from puridiver.streams.noise import plant

    given = plant(true, source, args.plant, np.random.default_rng(args.seed))
    wrong = int((given != true).sum())
    if not 0 < wrong < len(true):
        raise ValueError(
            f"--plant should put some labels wrong and leave some right, but {args.plant} puts {wrong} of {len(true)} "
            "wrong; choose another rate or more samples"
        )
    return given


def _load(args: argparse.Namespace) -> tuple[DataSource, LabelledSet, Any]:
    """The data source, what of it is audited, and the true labels (UNKNOWN where nobody knows).

    None where the data say of no sample that its label may be another than the true one, and none was planted.
    """
    import numpy as np
    import torch

    from puridiver.auditing.audit import check_classes
    from puridiver.auditing.carried import Carried, carried
    from puridiver.auditing.folder import LabelledSet
    from puridiver.data.sources import is_own

    source = _source(args)
    check_classes(source.class_names)
    part = getattr(source, args.split)
    rows = np.arange(len(part))
    if args.limit is not None and args.limit < len(rows):
        rows = np.sort(np.random.default_rng(args.seed).permutation(len(rows))[: args.limit])
    chosen = torch.from_numpy(rows)
    given, true = part.labels[chosen].numpy(), None
    if args.plant:
        true = part.best_labels[chosen].numpy()
        given = _planted(args, true, source)
    elif part.true is not None and part.truth_known:
        true = part.true[chosen].numpy()
    shortened = len(rows) < len(part)
    known = getattr(part, "names", None)  # of sets that are made of files
    names = [known[row] if known else f"{args.split} {row}" for row in rows.tolist()] if known or shortened else None
    images = part.images[chosen] if shortened else part.images
    place = Path(args.data)
    folder = (place if place.is_dir() else place.parent) if known and is_own(args.data) else None
    beside = carried(source, args.split, rows, folder) if folder else Carried()
    return source, LabelledSet(images, given, list(source.class_names), names, folder, beside), true


def settings_for(args: argparse.Namespace, source: DataSource) -> AuditSettings:
    """The user's word, then what suits the data; on a CPU the small network, as the others take too long."""
    from puridiver.auditing.passes import with_network
    from puridiver.auditing.settings import AuditSettings
    from puridiver.cli.run_settings import parse_assignments
    from puridiver.options import declared
    from puridiver.runtime.device import choose_runtime

    on_cpu = choose_runtime(args.device).device.type == "cpu"
    network = args.network or ("auto" if on_cpu else source.defaults.get("network", "auto"))
    suits = {name: value for name, value in source.defaults.items() if name in declared()}
    suits.pop("epochs", None)  # made for one stream that is learnt once; an audit has its own
    settings = AuditSettings(
        passes=args.passes, parts=args.parts, memory=args.memory, seed=args.seed,
        epochs=args.epochs, device=args.device,
        network=network, options={**suits, **parse_assignments(args.assignments)},
    )  # fmt: skip
    return with_network(settings, source.image_shape)


def _run(args: argparse.Namespace, labelled: LabelledSet, settings: AuditSettings, errors: Console) -> AuditReport:
    from puridiver.auditing.audit import audit
    from puridiver.cli.output import Progress as ProgressBar

    with ProgressBar(hidden=args.quiet or args.json) as progress:
        progress.start(settings.work(len(labelled.given)))
        if not args.out:
            labels = [labelled.classes[c] for c in labelled.given.tolist()]
            return audit(
                labelled.images, labels, classes=labelled.classes, names=labelled.names, settings=settings,
                advance=progress.advance,
            )  # fmt: skip
        return _run_in_folder(args, labelled, settings, errors, progress)


def _run_in_folder(
    args: argparse.Namespace, labelled: LabelledSet, settings: AuditSettings, errors: Console, progress: ProgressBar
) -> AuditReport:
    from puridiver.auditing.folder import AuditFolder, audit_in_folder
    from puridiver.runs.folder import held

    def tell(text: str) -> None:
        if not progress.hidden:
            errors.print(text, highlight=False)

    corrections = _corrections(args, labelled)
    with held(Path(args.out)):
        folder = AuditFolder(Path(args.out))
        if args.force:
            folder.clear()
        try:
            return audit_in_folder(folder, labelled, settings, corrections, progress.advance, tell, asked_of(args))
        except KeyboardInterrupt:
            words = [word for word in args.command_line if word not in ("--force", "--resume")]
            again = shlex.join(["puridiver", *words, "--resume"])
            errors.print(f"to continue with what is done: {again}", highlight=False, soft_wrap=True)
            raise


def _corrections(args: argparse.Namespace, labelled: LabelledSet) -> dict[int, int]:
    from puridiver.auditing.corrections import read_corrections

    if not args.corrections:
        return {}
    found = read_corrections(Path(args.corrections), labelled.classes, len(labelled.given), labelled.names)
    if not found:
        raise ValueError(f"{args.corrections} corrects nothing: its column corrected_label is empty on every line")
    return found


def summarise(report: AuditReport, data: str, settings: AuditSettings, seconds: float) -> dict[str, Any]:
    """What programs read, and the page's last lines."""
    from puridiver._version import __version__
    from puridiver.runs.folder import without_folder

    noise = report.noise
    return {
        "data": without_folder(data),
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
            str(label): {"rate": r.rate, "interval": [r.low, r.high], "labels": r.count}
            for label, r in zip(report.classes, report.noise_by_class, strict=True)
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
    from puridiver.files import write_atomically
    from puridiver.report.audit_page import write_audit_page
    from puridiver.runs.folder import to_json

    settings = summary["settings"]
    facts = {
        "Data": f"{summary['data']}, {summary['samples']} images",
        "Learners": f"{settings['passes']} passes, {settings['network']} network, seed {settings['seed']}",
        "Files": "suspects.csv, labels.csv, and cleanlab/ beside this page",
        "Software": f"puridiver {summary['version']}; {summary['seconds']:.0f} seconds",
    }
    write_audit_page(report, labelled.images.numpy(), f"Labels of {summary['data']}", facts, folder / PAGE)
    write_atomically(folder / SUMMARY, (to_json(summary, indent=1) + "\n").encode())


def print_report(report: AuditReport, summary: dict[str, Any], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    from puridiver.auditing.words import truth_words

    low, high = summary["noise_interval"]
    left = summary["samples"] - summary["checked"]
    console.print(
        f"{summary['suspects']} of {_of_what(summary)} are probably wrong; estimated share of wrong labels "
        f"among these {left}: {summary['noise_rate']:.1%} (95 % interval {low:.1%} to {high:.1%})", highlight=False,
    )  # fmt: skip
    if report.caution:
        console.print(f"note: {report.caution}", highlight=False)
    for kind in {"planted", "known"} & summary.keys():
        console.print(truth_words(summary[kind], kind), highlight=False)
    if not summary["suspects"]:
        return
    table = Table(title="most doubtful first", title_justify="left")
    for heading in ("row", "given", "suggested", "chance right", "why"):
        table.add_column(heading, overflow="fold")
    for j in report.judgements(report.suspect_rows()[:SHOWN]):
        cells = (j.name or str(j.row), str(j.given_label), str(j.suggested_label), f"{j.p_correct:.1%}", j.why)
        table.add_row(*map(escape, cells))
    console.print(table, highlight=False)


def _of_what(summary: dict[str, Any]) -> str:
    if not summary["checked"]:
        return f"{summary['samples']} labels"
    left = summary["samples"] - summary["checked"]
    return f"the {left} labels that nobody has checked ({summary['checked']} are)"
