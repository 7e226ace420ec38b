"""`puridiver run`: one run from the command line, with a progress bar and a final table."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import (
    add_command,
    add_plugin_option,
    check_outside,
    console,
    forget_stdout,
    told_afterwards,
)
from puridiver.cli.notes import from_to, notes
from puridiver.cli.run_settings import config_to_run, flag_specs, is_place

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from puridiver.runs.config import RunConfig
    from puridiver.runs.experiment import Experiment

EXAMPLES = """\
examples:
  puridiver run
      PuriDivER on scikit-learn's digits, blurry-10, 40 % symmetric noise
  puridiver run --noise asym-40 --seed 3 --out runs/asym40-3
      other noise and seed; config, manifest, metrics, summary and learner go to a folder
  puridiver run --noise matrix:T.csv
      label noise by a transition matrix of your own (row the true class, column the given one)
  puridiver run --imbalance 0.1
      long-tailed classes: the rarest has a tenth of the most frequent one's images
  puridiver run --out runs/a --tensorboard runs/tb
      watch it with `tensorboard --logdir runs/tb`; `puridiver report runs/a` makes a page of it afterwards
  puridiver run --out runs/a --trace runs/a/samples.csv
      also what became of each sample that was ever in the memory
  puridiver run --sampler rsv --trainer plain --set epochs=63 --set cutmix=0
      the plainest baseline, with two options of the recipe replaced
  puridiver run --data cifar10 --data-root DIR --stream official:sym40:1 --splits DIR --recipe official
      the paper's own stream, as the released program learns from it
  puridiver run --data cifar10 --holdout 5000 --evaluate-on validation --seed 11
      choose settings without looking at the test set
  puridiver run --out runs/asym40-3 --resume
      continue what was killed or interrupted there, to the same bits as if it had not been
  puridiver run --json | jq .last_accuracy
      for programs: the summary as JSON on standard output
"""


def add_parser(subparsers: Any) -> None:
    parser = add_command(subparsers, "run", "learn from one stream and report accuracy and memory purity", EXAMPLES)
    for name, spec in flag_specs().items():
        # What is not said is left out: a run that is resumed without a word about its config keeps its own.
        parser.add_argument(name, **{**spec, "default": argparse.SUPPRESS})
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", dest="assignments",
        help="replace an option of the recipe, or set one of a method (METHOD.OPTION); `puridiver methods --options` "
        "lists all; may be repeated",
    )  # fmt: skip
    parser.add_argument("--out", metavar="FOLDER", help="write config, manifest, metrics, summary and learner there")
    parser.add_argument("--force", action="store_true", help="replace a run that the folder already holds")
    parser.add_argument(
        "--resume", action="store_true",
        help="continue the run in --out from its checkpoint, with its own config (what is said must agree with it); "
        "begin it where there is none and the command says what to run",
    )  # fmt: skip
    parser.add_argument(
        "--checkpoint-every", type=float, default=60.0, metavar="SECONDS",
        help="write a checkpoint to --out that often, besides those at the ends of phases; 0: only there (default: 60)",
    )  # fmt: skip
    parser.add_argument(
        "--keep-learner", action=argparse.BooleanOptionalAction, default=True,
        help="save the learner in --out at the end, for `puridiver predict` and Learner.load (default: yes)",
    )  # fmt: skip
    parser.add_argument("--ledger", metavar="FILE", help="append the finished run to this JSON-lines file")
    parser.add_argument("--tensorboard", metavar="FOLDER", help="write scalars for TensorBoard there, as they happen")
    parser.add_argument(
        "--trace", metavar="FILE",
        help="write there (.csv or .parquet) what became of each sample that was ever in the memory: when it came and "
        "went, its labels, its set and suggested label after each training (docs/METHODS.md)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the summary as JSON instead of a table")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, and no notes on the settings")
    add_plugin_option(parser)
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    from rich.console import Console

    from puridiver.data import SOURCES
    from puridiver.errors import DataError
    from puridiver.report.ledger import row_of_run
    from puridiver.runs import folder as runs

    errors, folder = Console(stderr=True), Path(args.out) if args.out else None
    # What would fail at the end must fail before the work.
    if args.resume and folder is None:
        raise ValueError("--resume needs --out FOLDER: the folder of the run to continue")
    if folder is not None:
        runs.check_free(folder, args.force, args.resume)
    if args.ledger:
        runs.check_ledger(Path(args.ledger))
    _check_trace(args)
    finished = args.resume and folder is not None and row_of_run(folder) is not None
    config = config_to_run(args)
    if folder is not None and is_place("data", config.data):
        check_outside(Path(config.data), folder)
    try:
        summary, code = run_once(args, config, folder, errors)
    except (DataError, ValueError) as error:
        if args.resume and config.data not in SOURCES and not Path(config.data).exists():
            raise DataError(
                f"{error}; if the data have moved, say --data PLACE beside --resume (they keep their name there)"
            ) from error
        raise
    try:
        with told_afterwards(lambda: _print(args, summary, folder, errors, finished)):
            if args.ledger:
                runs.append_to_ledger(Path(args.ledger), summary, once=args.resume)
    except BrokenPipeError:  # the reader left; whether the learner was kept is still to be told
        forget_stdout()
    return code


def _print(
    args: argparse.Namespace, summary: dict[str, Any], folder: Path | None, errors: Console, finished: bool
) -> None:
    from puridiver.runs import folder as runs

    if args.json:
        sys.stdout.write(runs.to_json(summary, indent=1) + "\n")
    else:
        print_summary(summary, console())
        if not args.quiet:
            text = "the run was finished already. " if finished else ""
            errors.print(text + _kept(args, folder), highlight=False, markup=False, soft_wrap=True)


def _check_trace(args: argparse.Namespace) -> None:
    if args.trace:
        from puridiver.metrics import check_trace_file

        check_trace_file(Path(args.trace))
        if Path(args.trace).exists() and not (args.force or args.resume):
            raise FileExistsError(f"{args.trace} is already there: add --force to replace it")


def _kept(args: argparse.Namespace, folder: Path | None) -> str:
    if folder:
        return f"run folder: {folder}"
    again = shlex.join(["puridiver", *args.command_line, "--out", "runs/mine"])
    return f"config, metrics, summary and learner were not kept; to keep them: {again}"


def epochs_of_tasks(experiment: Experiment) -> list[int]:
    return [times * experiment.options.epochs for times in experiment.trainings]


def run_once(
    args: argparse.Namespace, config: RunConfig, folder: Path | None, errors: Console
) -> tuple[dict[str, Any], int]:
    """The summary, and the exit code: 1 where the learner was to be kept and could not be."""
    from puridiver.report.tensorboard import tensorboard_logs
    from puridiver.runs import folder as runs
    from puridiver.runs.experiment import Experiment

    with (
        ProgressBar(errors, hidden=args.quiet or args.json) as progress,
        tensorboard_logs(args.tensorboard) as logs,
    ):
        experiment = Experiment(config, progress)
        experiment.listeners += [log.listener(epochs_of_tasks(experiment)) for log in logs]
        told = notes(config, experiment.source, experiment.learner.runtime, experiment.manifest.task_ends)
        for note in [] if args.quiet else told:
            errors.print(f"note: {note}", highlight=False, markup=False)
        if folder is None:
            return experiment.run(trace=args.trace), 0
        try:
            with stopping_gently(experiment, errors):
                done = experiment.run(
                    folder, args.force, args.resume, args.checkpoint_every, args.keep_learner, args.trace
                )
            return done, int(experiment.learner_lost)
        except KeyboardInterrupt:
            if (folder / runs.CONFIG).exists():
                again = ["puridiver", "run", "--out", args.out, "--resume"]
                again += [] if args.keep_learner else ["--no-keep-learner"]
                again += ["--ledger", args.ledger] if args.ledger else []
                again += ["--tensorboard", args.tensorboard] if args.tensorboard else []
                again += ["--trace", args.trace] if args.trace else []
                again += [word for place in args.plugins for word in ("--plugin", place)]
                errors.print(f"to continue: {shlex.join(again)}", highlight=False, soft_wrap=True)
            raise


@contextlib.contextmanager
def stopping_gently(experiment: Experiment, errors: Console) -> Iterator[None]:
    """Meanwhile the first Ctrl-C lets the run come to a point where it can be saved; the second stops it at once."""
    if threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def stop(number: int, frame: types.FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        experiment.stop()
        errors.print("stopping after this batch or memory epoch; Ctrl-C again stops at once", highlight=False)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class ProgressBar:
    """A bar with the time left on a terminal; one line a task where output goes to a file."""

    def __init__(self, console: Console, hidden: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.console, self.hidden = console, hidden
        self.bar = Progress(
            TextColumn("{task.description:<36}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(), TimeRemainingColumn(), TextColumn("left"),
            console=console, transient=True, disable=hidden or not console.is_terminal,
        )  # fmt: skip
        self.task = self.bar.add_task("preparing", total=None)

    def __enter__(self) -> ProgressBar:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def start(self, total: int) -> None:
        self.bar.update(self.task, total=total)

    def advance(self, amount: int, text: str) -> None:
        self.bar.update(self.task, advance=amount, description=text)

    def event(self, event: dict[str, Any]) -> None:
        if self.hidden:
            return
        self.console.print(
            f"after task {event['task'] + 1}: accuracy {event['accuracy']:6.1%}, "
            f"memory purity {_percent(event['memory_purity']):>6}",
            highlight=False,
        )


def print_summary(summary: dict[str, Any], console: Console) -> None:
    from rich.table import Table

    from puridiver.report.judged import judged_by
    from puridiver.report.reading import noise_title

    noisy, purity = summary["stream_noise"], summary["memory_purity"]
    changed = "".join(f", {name}={value}" for name, value in summary["options_changed"].items())
    title = f"{summary['sampler']} sampler + {summary['trainer']} trainer, recipe {summary['recipe']}{changed}"
    table = Table(title=title, title_justify="left", show_header=False, title_style="bold")
    for _ in range(2):
        table.add_column()
    table.add_column(justify="right")
    noise = noise_title(summary)
    tailed = f", imbalance {summary['imbalance']:g}" if "imbalance" in summary else ""
    stream = f"{summary['data']}, {summary['stream']}{tailed}, {noise}, seed {summary['seed']}"
    right = "true labels not known" if noisy is None else f"{1 - noisy:.1%} of labels right"
    table.add_row("stream", stream, right)
    asked = summary.get("consolidations", 1)  # not in summaries of old versions
    times = from_to(summary.get("task_trainings", [asked]))
    epochs = f"{times} x {summary['epochs']}" if times != "1" else summary["epochs"]
    learner = f"{summary['network']} network, memory of {summary['memory']}, {epochs} memory epochs a task"
    table.add_row("learner", learner, "")
    by = judged_by(summary)
    judged = f"after all tasks, on {summary['evaluated_on']} images{', ' * bool(by)}{by}"
    table.add_row("last accuracy", judged, f"{summary['last_accuracy']:.1%}")
    table.add_row("average accuracy", "mean over the ends of the tasks", f"{summary['average_accuracy']:.1%}")
    _add_of_seen(table, summary, "average_accuracy", "average_seen_accuracy")
    table.add_row("anytime accuracy", "mean over the whole stream", f"{summary['anytime_area']:.1%}")
    _add_of_seen(table, summary, "anytime_area", "anytime_seen_area")
    table.add_row("forgetting", "mean drop on earlier tasks' classes", _percent(summary["forgetting"]))
    if noisy is None or purity is None:
        table.add_row("memory purity", "true labels are not known", "not known")
    else:
        gained = round(100 * (purity - 1 + noisy), 1) + 0.0  # no minus before a zero
        known = f", of {summary['memory_known']} labels whose truth is known" if "memory_known" in summary else ""
        table.add_row("memory purity", f"{gained:+.1f} points against the stream{known}", f"{purity:.1%}")
    if "memory_diversity" in summary:
        table.add_row("memory diversity", "mean feature distance within a class", f"{summary['memory_diversity']:.2f}")
    for name, meaning in SETS.items():
        if summary.get(f"{name}_size"):
            size = summary[f"{name}_size"]
            precision = _percent(summary[f"{name}_precision"])
            text = f"{size} sample{'s' if size > 1 else ''}" + (f"; {meaning}" if precision != "-" else "")
            table.add_row(f"set: {name}", text, precision)
    if "best_epoch_accuracy" in summary:
        unfair = "chosen by looking at the evaluation: not a fair figure"
        table.add_row("best epoch", unfair, f"{summary['best_epoch_accuracy']:.1%}")
    table.add_row("time", summary["device"], f"{summary['seconds']:.1f} s")
    console.print(table, highlight=False)
    if summary["shortened"]:
        console.print("A shortened run (--stream-limit or --test-limit): its figures are for a quick look only.")


def _add_of_seen(table: Table, summary: dict[str, Any], of_all: str, of_seen: str) -> None:
    """A figure once more on the classes that had come, where that differs by a point or more: with disjoint tasks."""
    found = summary.get(of_seen)  # not in summaries of old versions
    if found is not None and abs(found - summary[of_all]) >= 0.01:
        table.add_row("the same", "on classes that had come by then", f"{found:.1%}")


SETS = {
    "clean": "given label right",
    "relabel": "predicted label right",
    "unlabelled": "given label wrong",
}


def _percent(value: float | None) -> str:
    """One decimal, and no minus before a zero."""
    return "-" if value is None or value != value else f"{value:z.1%}"
