"""`puridiver run`: one run, with progress and a table of its figures."""

from __future__ import annotations

import contextlib
import shlex
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from puridiver.cli.flags import (
    Assignments,
    Force,
    Json,
    Opt,
    Plugins,
    Quiet,
    Resume,
    absolute_places,
    check_outside,
    options_of,
    settings_flags,
)
from puridiver.cli.notes import run_notes
from puridiver.cli.output import Progress, forget_stdout, note, percent, say, say_json, say_table, tell
from puridiver.errors import DataError
from puridiver.runs.config import SETTINGS, RunConfig

if TYPE_CHECKING:
    from puridiver.runs.experiment import Experiment

SETS = {
    "clean": "given labels are right",
    "relabel": "predicted ones are right",
    "unlabelled": "given labels are wrong",
}


@settings_flags(SETTINGS)
def run(
    ctx: typer.Context,
    settings: dict[str, Any],
    assignments: Assignments = None,
    out: Annotated[str | None, Opt("write config, stream, metrics, summary and learner there", "FOLDER")] = None,
    force: Force = False,
    resume: Resume = False,
    checkpoint_every: Annotated[
        float, Opt("seconds between checkpoints in --out. 0: only at the ends of phases (default: 60)")
    ] = 60.0,
    keep_learner: Annotated[bool, Opt("save the learner in --out, for `puridiver predict`")] = True,
    ledger: Annotated[str | None, Opt("append the finished run to this JSON-lines file", "FILE")] = None,
    tensorboard: Annotated[str | None, Opt("write scalars for TensorBoard there", "FOLDER")] = None,
    trace: Annotated[
        str | None,
        Opt("write the history of each sample that entered the memory (.csv or .parquet)", "FILE"),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
    plugins: Plugins = None,
) -> int:
    """Learn from one stream and report accuracy and memory purity.

    Examples:
      puridiver run
          PuriDivER on scikit-learn's digits, blurry-10, 40 % symmetric noise
      puridiver run --noise asym-40 --seed 3 --out runs/a
          another noise and seed; everything about the run goes to a folder
      puridiver run --out runs/a --resume
          continue an interrupted run, to the same bits
      puridiver run --data my-pictures/ --test-share 0.2 --set lr=0.01 --json
          your own images, another learning rate, the figures for programs
    """
    from puridiver.runs import folder as runs
    from puridiver.runs.ledger import append_row, check_ledger

    folder = Path(out) if out else None
    # What would fail at the end must fail before the work.
    if resume and folder is None:
        raise ValueError("--resume needs --out FOLDER: the folder of the run to continue")
    if folder is not None:
        runs.check_free(folder, force, resume)
    if ledger:
        check_ledger(Path(ledger))
    if trace:
        _check_trace(Path(trace), force or resume)
    config = _config(absolute_places(settings), options_of(assignments), folder if resume else None)
    if folder is not None:
        check_outside(config.data, folder)
    finished = folder is not None and resume and (folder / runs.SUMMARY).exists()
    again = ["puridiver", "run", "--out", str(out), "--resume", *_words_to_repeat(ctx.obj)]
    with Progress(hidden=quiet or json) as progress, _logs(tensorboard) as logs:
        experiment = _prepared(config, progress, resume)
        experiment.listeners += logs
        for text in () if quiet or finished else run_notes(experiment):
            note(text)
        with _stopping_gently(experiment, again if folder is not None else None):
            summary = experiment.run(folder, force, resume, checkpoint_every, keep_learner and bool(out), trace)
    try:
        if ledger:
            append_row(Path(ledger), summary, once=resume)
        if json:
            say_json(summary)
        else:
            print_summary(summary)
            if not quiet:
                tell("the run was finished already" if finished else f"run folder: {out}" if out else _not_kept(ctx))
    except BrokenPipeError:  # the reader left; the exit code still tells whether the learner was kept
        forget_stdout()
    return int(experiment.learner_lost)


def _check_trace(file: Path, replace: bool) -> None:
    from puridiver.metrics.history import check_trace_file

    check_trace_file(file)
    if file.exists() and not replace:
        raise FileExistsError(f"{file} is already there: add --force to replace it")


def _config(said: dict[str, Any], options: dict[str, Any], begun_in: Path | None) -> RunConfig:
    """The config that the command line says; where it says nothing, that of the run to be resumed."""
    from puridiver.runs import folder as runs

    if "epochs" in options and said.get("epochs") not in (None, options["epochs"]):
        raise ValueError(f"--epochs {said['epochs']} and --set epochs={options['epochs']} differ: say one of them")
    begun = runs.RunFolder(begun_in).begun() if begun_in else None
    if begun is not None:
        return begun.continued(said, options)
    if begun_in and not said and not options:
        raise DataError(f"there is no run in {begun_in} to resume: is the name right? Or say what to run")
    return RunConfig(**said, options=options)


def _prepared(config: RunConfig, progress: Progress, resume: bool) -> Experiment:
    from puridiver.runs.experiment import Experiment

    try:
        return Experiment(config, progress)
    except (DataError, ValueError) as error:
        if resume and Path(config.data).is_absolute() and not Path(config.data).exists():
            raise DataError(f"{error}; if the data have moved, add --data PLACE") from error
        raise


def _words_to_repeat(words: list[str]) -> list[str]:
    """What a resumed run has to be told again: where else it writes, and its plugins."""
    again = []
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word in ("--ledger", "--tensorboard", "--trace", "--plugin"):
            again += [word, value]
        elif word == "--no-keep-learner" or word.startswith(("--ledger=", "--tensorboard=", "--trace=", "--plugin=")):
            again.append(word)
    return again


def _not_kept(ctx: typer.Context) -> str:
    return f"nothing was kept; to keep it: {shlex.join(['puridiver', *ctx.obj, '--out', 'runs/mine'])}"


def _logs(tensorboard: str | None) -> contextlib.AbstractContextManager[list[Any]]:
    if tensorboard is None:
        return contextlib.nullcontext([])
    from puridiver.report.tensorboard import tensorboard_logs

    return tensorboard_logs(tensorboard)


@contextlib.contextmanager
def _stopping_gently(experiment: Experiment, again: list[str] | None) -> Iterator[None]:
    """Let the first Ctrl-C stop the run where it can be saved, and the second at once; say how to continue."""
    if again is None or threading.current_thread() is not threading.main_thread():  # only there can signals be handled
        yield
        return

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        experiment.stop()
        tell("stopping after this batch or memory epoch; Ctrl-C again stops at once")

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    except KeyboardInterrupt:
        tell(f"to continue: {shlex.join(again)}")
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def print_summary(summary: dict[str, Any]) -> None:
    """The figures of a finished run, as a table."""
    from puridiver.metrics import METRICS
    from puridiver.streams import noise_name

    noisy = summary["stream_noise"]
    noise = noise_name(summary["noise"], summary["noise_rate"])
    labels = "true labels not known" if noisy is None else f"{1 - noisy:.1%} of labels right"
    rows = [
        ("stream", f"{summary['data']}, {summary['stream']}, noise {noise}, seed {summary['seed']}; {labels}"),
        ("learner", f"{summary['network']} network, memory {summary['memory']}, epochs a task: {summary['epochs']}"),
        ("accuracy on", f"{summary['evaluated_on']} images{_judged_by(summary)}"),
    ]
    for name in sorted(METRICS, key=lambda name: name != "last_accuracy"):  # which is the headline
        if (value := summary.get(name)) is not None:
            rows.append((METRICS[name].title, percent(value) if METRICS[name].unit == "%" else f"{value:.2f}"))
    for name, meaning in SETS.items():
        if size := summary.get(f"{name}_size"):
            right = summary[f"{name}_precision"]
            known = "" if right is None else f"; {percent(right)} of the {meaning}"
            rows.append((f"set {name}", f"{size} samples{known}"))
    rows.append(("time", f"{summary['seconds']:.1f} s on {summary['device']}"))
    changed = "".join(f", {name}={value}" for name, value in summary["options"].items())
    title = f"{summary['sampler']} sampler + {summary['trainer']} trainer, recipe {summary['recipe']}{changed}"
    say_table(rows, ("", ""), title)
    if summary["shortened"]:
        say("A shortened run (--stream-limit or --test-limit): its figures are for a quick look only.")


def _judged_by(summary: dict[str, Any]) -> str:
    """By which labels the images count as right, where these are not all true."""
    if summary["stream_noise"] is None or summary.get("verified") == 0:
        return ", by the labels that they came with"
    if "verified" not in summary:
        return ""
    return f", by the true label of {summary['verified']} of {summary['evaluated']}, else by the one they came with"
