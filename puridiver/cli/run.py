"""`puridiver run`: one run, with progress, notes and a table of its figures."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from puridiver.cli import flags
from puridiver.cli.flags import Opt
from puridiver.cli.output import Progress, note, percent, say, say_json, say_table, tell
from puridiver.errors import DataError, few
from puridiver.integrations.tracking import tracker
from puridiver.metrics import METRICS
from puridiver.runs.config import SETTINGS, RunConfig
from puridiver.runs.experiment import Experiment
from puridiver.runs.folder import RunFolder
from puridiver.runs.ledger import append_row, check_ledger
from puridiver.streams import noise_name

WARM_UPS = {"warmup_epochs", "baseline_warmup"}  # options that trainers have


@flags.settings_flags(SETTINGS)
def run(
    ctx: typer.Context,
    settings: dict[str, Any],
    assignments: flags.Assignments = None,
    out: Annotated[Path | None, Opt("write config, stream, metrics, summary and learner there", "FOLDER")] = None,
    force: flags.Force = False,
    resume: flags.Resume = False,
    checkpoint_every: Annotated[float, Opt("seconds between checkpoints in --out (default: 60)", "X")] = 60.0,
    ledger: Annotated[Path | None, Opt("append the finished run to this JSON-lines file", "FILE")] = None,
    tensorboard: Annotated[str | None, Opt("write scalars for TensorBoard there", "FOLDER")] = None,
    mlflow: Annotated[str | None, Opt("log to this experiment of MLflow", "NAME")] = None,
    wandb: Annotated[str | None, Opt("log to this project of Weights & Biases", "PROJECT")] = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    plugins: flags.Plugins = None,
) -> int:
    """Learn from one stream and report accuracy and memory purity.

    The default is Sieve + Verdict with a light network, as on digits; `--sampler puridiver --trainer puridiver` is the
    paper's method.

    Examples:
      puridiver run                                          the default on digits, 40 % wrong labels
      puridiver run --noise asym-40 --seed 3 --out runs/a    keep everything about the run in a folder
      puridiver run --out runs/a --resume                    continue an interrupted run, to the same bits
      puridiver run --data my-pictures/ --test-share 0.2 --set lr=0.01 --json
    """
    config = _config(flags.absolute_places(settings), flags.options_of(assignments), out, resume)
    if out:
        flags.check_outside(config.data, out)
    if ledger:  # what would fail at the end must fail before the work
        check_ledger(ledger)
    with Progress(quiet or json) as progress, contextlib.ExitStack() as stack:
        experiment = Experiment(config, progress)
        for name, place in {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}.items():
            if place:
                experiment.listeners.append(stack.enter_context(tracker(name, place, experiment.facts())))
        for text in [] if quiet else run_notes(experiment):
            note(text)
        try:
            summary = experiment.run(out, force, resume, checkpoint_every, keep_learner=True)
        except (KeyboardInterrupt, OSError):  # OSError: the disk is full
            if out:
                tell(f"to continue from the last checkpoint: {flags.resume_command(ctx.obj)}")
            raise
    if ledger:
        append_row(ledger, summary, once=resume)
    if json:
        say_json(summary)
    else:
        print_summary(summary)
    if not quiet:
        again = shlex.join(["puridiver", *ctx.obj, "--out", "runs/mine"])
        tell(f"run folder: {out}" if out else f"nothing was kept; to keep it: {again}")
    return 0


def _config(said: dict[str, Any], options: dict[str, Any], out: Path | None, resume: bool) -> RunConfig:
    """The config of the command line; with --resume, the interrupted run fills in what it leaves out."""
    if "epochs" in options and said.get("epochs") not in (None, options["epochs"]):
        raise ValueError(f"--epochs {said['epochs']} and --set epochs={options['epochs']} differ: say one of them")
    if resume and out is None:
        raise ValueError("--resume needs --out FOLDER: the folder of the run to continue")
    if resume and out:
        if begun := RunFolder(out).begun():
            return begun.continued(said, options)
        if not said and not options:
            raise DataError(f"there is no run in {out} to resume: is the name right? Or say what to run")
    return RunConfig(**said, options=options)


def run_notes(experiment: Experiment) -> Iterator[str]:
    """Warnings about settings that make the figures of a run misleading."""
    options, source = experiment.options, experiment.source
    memory, stream, classes = experiment.learner.capacity, len(experiment.manifest), len(source.class_names)
    if source.left_out:
        yield f"left out, since they cannot be read: {few(source.left_out, 3)}"
    if memory >= stream:
        yield f"a memory of {memory} holds the whole stream ({stream} samples): say a smaller --memory"
    if memory < classes:
        yield f"a memory of {memory} cannot hold a sample of each of the {classes} classes: say a larger --memory"
    for name in WARM_UPS & experiment.resolved.own_options.keys():
        if 0 < options.epochs <= options[name]:
            yield f"all epochs are warm-up ({name}={options[name]}) and doubt no label: say more --epochs"


def print_summary(summary: dict[str, Any]) -> None:
    """The figures of a finished run, as a table."""
    noise = noise_name(summary["noise"], summary["noise_rate"])
    wrong, not_known = summary["stream_noise"], "true labels not known; accuracy is by the labels that images came with"
    known = not_known if wrong is None else f"{wrong:.1%} of labels wrong"
    method = f"{summary['sampler']} sampler + {summary['trainer']} trainer, recipe {summary['recipe']}"
    for name, value in summary["options"].items():
        method += f", {name}={value}"
    rows = [
        ("stream", f"{summary['data']}, {summary['stream']}, noise {noise}, seed {summary['seed']}; {known}"),
        ("method", method),
        ("learner", f"{summary['network']} network, memory {summary['memory']}, epochs a task: {summary['epochs']}"),
    ]
    for name in sorted(METRICS, key="last_accuracy".__ne__):  # the accuracy first
        if (value := summary.get(name)) is not None:
            rows.append((METRICS[name].title, percent(value) if METRICS[name].unit == "%" else f"{value:.2f}"))
    say_table([*rows, ("time", f"{summary['seconds']:.1f} s on {summary['device']}")], ("", ""))
    if summary["shortened"]:
        say("A shortened run (--stream-limit or --test-limit): its figures are for a quick look only.")
