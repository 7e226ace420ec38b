"""What a user would want to know before waiting for the result of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puridiver.runs.config import RunConfig, resolve_memory, resolve_network, resolve_noise, resolve_options
from puridiver.streams.names import is_manifest, is_published

if TYPE_CHECKING:
    from puridiver.data.base import DataSource
    from puridiver.grid.cells import Grid
    from puridiver.options import Options
    from puridiver.runtime.device import Runtime


LONG_ON_A_CPU = 63  # memory epochs a task


def grid_notes(grids: Sequence[Grid], changes: Mapping[str, Any]) -> Iterator[str]:
    """What of the command line methods of a grid do not take, and which of them are one then."""
    from puridiver.grid.cells import cells

    methods = [method for grid in grids for method in grid.methods]
    for name in changes:
        if deaf := list(dict.fromkeys(method.title for method in methods if name in method.settings)):
            yield f"--{name.replace('_', '-')} does not reach {', '.join(deaf)}: what is a method's own goes first"
    for name in changes.get("options", {}):
        if deaf := list(dict.fromkeys(method.title for method in methods if name in method.options)):
            yield f"--set {name} does not reach {', '.join(deaf)}: what is a method's own goes first"
    for grid in grids:
        found = cells(grid, changes)
        titles: dict[str, dict[str, None]] = {}
        for cell in found:
            titles.setdefault(repr(cell.config), {})[cell.method.title] = None
        for same in dict.fromkeys(tuple(same) for same in titles.values() if len(same) > 1):
            yield f"{' and '.join(same)} are the same runs"
        for name in changes.get("options", {}):
            if not any(name in cell.config.options for cell in found):
                yield f"--set {name} reaches no method of the grid"
        if found and all(cell.config.shortened for cell in found):
            yield "shortened runs enter no table of a grid; `puridiver table FOLDER` lists them"


def left_out_note(names: Sequence[str]) -> str:
    named = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"left out, since it cannot be read: {'1 file' if len(names) == 1 else f'{len(names)} files'} ({named})"


def notes(
    config: RunConfig, source: DataSource, runtime: Runtime, task_ends: Sequence[int] | None = None
) -> Iterator[str]:
    """Of a run whose tasks end after so many samples, if that is known."""
    from puridiver import plugins
    from puridiver.options import recipe
    from puridiver.runs.loop import trainings_of
    from puridiver.trainers import TRAINERS
    from puridiver.trainers.schedule import ends_low

    plugins.load_all()
    options, network = resolve_options(config, source), resolve_network(config, source)
    if runtime.device.type == "cpu" and network.startswith("resnet") and not config.shortened:
        yield (
            f"{network} on a CPU takes hours; --network small is far quicker, and --stream-limit, --test-limit and "
            "--epochs give a quick look"
        )
    if source.left_out:
        yield left_out_note(source.left_out)
    yield from _missing_classes(source)
    yield from _noise_on_top(config, source)
    memory = resolve_memory(config, source)
    if task_ends is not None and memory >= task_ends[-1]:
        yield f"a memory of {memory} holds the whole stream ({task_ends[-1]} samples): say a smaller --memory"
    if memory < (classes := len(source.class_names)):
        yield f"a memory of {memory} cannot hold a sample of each of the {classes} classes: say a larger --memory"
    yield from _all_warm_up(config.trainer, options)
    own = recipe("official").ntd_views
    if config.sampler == "ntd" and "ntd_views" not in config.options and options.ntd_views != own:
        yield f"NTD looks at {options.ntd_views} views with this recipe; its own number is {own}: --set ntd_views={own}"
    trainings = trainings_of(task_ends, options, config.stream_limit) if task_ends else [options.consolidations]
    if min(trainings) < options.consolidations:
        yield (
            f"consolidations={options.consolidations} is more than a task has batches: the memory is trained on "
            f"{from_to(trainings)} times a task"
        )
    total = max(trainings) * options.epochs
    if runtime.device.type == "cpu" and total > LONG_ON_A_CPU and not config.shortened:
        yield (
            f"{total} memory epochs a task train on the memory about {total // 31} times as long as --epochs 31, "
            "which is a quick look"
        )
    if options.schedule == "warm_restarts" and not ends_low(options.epochs):
        yield (
            f"{_epochs(options)} end amid a warm restart, where the rate is high: accuracy may fall; "
            "15, 31, 63, 127 or 255 end at its low"
        )
    if config.trainer == "elr" and options.cutmix >= 1:
        yield "elr averages predictions of batches that CutMix leaves whole: with cutmix=1 it is plain training"
    trainer = TRAINERS.get(config.trainer)
    if trainer is not None and trainer.wants_hint and not config.tell_noise:
        yield f"{trainer.title} is not told the noise; --tell-noise tells it the true kind and rate"
    # Of one from outside nobody knows what it looks at.
    if config.tell_noise and trainer is not None and plugins.is_own(trainer) and not trainer.reads_hint:
        yield (
            f"tell_noise changes nothing with the trainer {config.trainer}, which does not look at what it is told, "
            "but its runs count as others than those without: leave it out"
        )


def _missing_classes(source: DataSource) -> Iterator[str]:
    """Where accuracy is not of what is learnt: classes that only one part of the data has."""
    train, test = (set(part.labels.unique().tolist()) for part in (source.train, source.test))
    if not train or not test:
        return
    for classes, told in (
        (test - train, "no train image has the label {names}: test images of it count as wrong"),
        (train - test, "no test image shows {names}: the accuracy says nothing of it"),
    ):
        names = [repr(source.class_names[label]) for label in sorted(classes)]
        if names:
            yield told.format(names=", ".join(names[:3]) + (", ..." if len(names) > 3 else ""))


def _noise_on_top(config: RunConfig, source: DataSource) -> Iterator[str]:
    """Noise that is planted in labels which are partly wrong already."""
    from puridiver.data.base import UNKNOWN

    train, noise = source.train, resolve_noise(config, source)
    if noise == "none" or train.true is None or is_published(config.stream) or is_manifest(config.stream):
        return
    known = train.true != UNKNOWN
    wrong = int((train.labels != train.true)[known].sum())
    if wrong:
        yield (
            f"{noise} is planted on top of the labels as they came, of which {wrong / int(known.sum()):.0%} are wrong "
            "already where that is known"
        )


def _all_warm_up(trainer: str, options: Options) -> Iterator[str]:
    """Robust training that never begins."""
    if trainer == "puridiver" and (options.relabel or options.consistency):
        name, what = "warmup_epochs", "nothing is re-labelled, and the sets are only told"
    elif trainer in ("selfie", "dividemix"):
        name, what = "baseline_warmup", f"{trainer} is plain training"
    else:
        return
    if options.epochs <= getattr(options, name):
        yield (
            f"{_epochs(options)} {'is' if options.epochs == 1 else 'are'} all warm-up "
            f"({name}={getattr(options, name)}): {what}; say more --epochs, or "
            f"--set {name}=0"
        )


def from_to(counts: Sequence[int]) -> str:
    """What all have, or the least and the most."""
    least, most = min(counts), max(counts)
    return str(most) if least == most else f"{least} to {most}"


def _epochs(options: Options) -> str:
    return "1 memory epoch" if options.epochs == 1 else f"{options.epochs} memory epochs"
