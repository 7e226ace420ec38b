"""The configuration of a run. Each field of `RunConfig` declares its default, help, limits and role, once.

Flags, the keys of grid files, checks, the command in a record and the identity of a run derive from `SETTINGS`. To add
an option to `run`, add a field here.
"""

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

from puridiver.options import Option


class Role(StrEnum):
    """What a field of `RunConfig` decides."""

    SOURCE = "source"  # which data and which stream; the stream's content hash stands for it in the identity
    STREAM = "stream"  # how a generated stream is made; hashed with its content, and forbidden for a ready-made one
    OPTIONS = "options"  # the options of the methods; they enter the identity resolved
    IDENTITY = "identity"  # anything else that decides the figures; it enters the identity
    MEASUREMENT = "measurement"  # adds figures to a run that is the same without them
    PLACE = "place"  # where files lie on this machine
    MACHINE = "machine"  # how this machine computes; recorded beside the identity


@dataclass(frozen=True, kw_only=True)
class Setting(Option):
    """The declaration of a field of `RunConfig`, for flags, file keys and checks."""

    role: Role
    axis: bool = False  # grids vary it in lists of their own
    path: bool = False  # it may name a file
    family: str = ""  # the "package:base class" whose members the help lists
    name: str = ""
    annotation: Any = str  # of the field: a type, or a type and None, which means: what suits the data

    @property
    def kind(self) -> type:
        return (get_args(self.annotation) or (self.annotation,))[0]

    @property
    def optional(self) -> bool:
        return type(None) in get_args(self.annotation)

    def checked(self, value: Any) -> Any:
        """The value, if the field may have it; else a ValueError that says what it should be."""
        return None if value is None and self.optional else self.check(self.name, value)


def setting(default: Any, role: Role, help: str, choices: tuple[str, ...] = (), **declared: Any) -> Any:
    """Declare a field by a `Setting`."""
    return field(default=default, metadata={"setting": Setting(default, help, choices, role=role, **declared)})


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run."""

    # fmt: off
    data: str = setting("digits", Role.SOURCE, "a data set by name; a folder with a folder of images for each class; a "
        ".csv, .jsonl or .parquet table of paths and labels; or an .npz file of arrays", axis=True, path=True,
        family="puridiver.data.sets:puridiver.data.base.DataSet")
    data_root: str | None = setting(None, Role.PLACE, "folder of the data sets (default: the user's cache)", path=True)
    image_size: int | None = setting(None, Role.SOURCE, "pixels of image files (default: the data set's; for your own "
        "files 32, or their common size from 4 to 64)", low=1)
    test_share: float | None = setting(None, Role.SOURCE, "share of your own images for testing, such as 0.2", low=0)
    bad_files: str = setting("refuse", Role.SOURCE, "what happens when image files cannot be read", ("refuse", "skip"))
    trust_labels: bool = setting(False, Role.SOURCE, "take the labels of your own images for true, to measure noise")
    stream: str = setting("blurry-10", Role.SOURCE, "blurry-L (L percent minor samples), disjoint, i-blurry-N-M (N "
        "percent of classes disjoint, the others blurry-M), time (the order of timestamps), official:NOISE:SEED "
        "(published, each task shuffled; with :listed at the end as in the files), or the path of a manifest.json, in "
        "which {seed} stands for the seed", axis=True, path=True)
    splits: str | None = setting(None, Role.PLACE, "where official split files lie (default: data root)", path=True)
    tasks: int | None = setting(None, Role.STREAM, "tasks of a generated stream (default: 5, or the data's)", low=1)
    noise: str | None = setting(None, Role.STREAM, "label noise of a generated stream (default: sym-40; none for data "
        "of your own, which keep their labels)", axis=True, path=True,
        family="puridiver.streams.noises:puridiver.streams.noise.Noise")
    noise_file: str | None = setting(None, Role.STREAM, "for human noise: CIFAR-10N's or CIFAR-100N's file", path=True)
    noise_map: str | None = setting(None, Role.STREAM, "class map of asymmetric noise: next, pairs or spr-cifar10 "
        "(default: the data's own)")
    imbalance: float | None = setting(None, Role.STREAM, "long-tailed classes in a generated stream: the rarest has "
        "this share of the most frequent one's images", low=0)
    holdout: int = setting(0, Role.STREAM, "train images kept out of a generated stream for validation", low=0)
    evaluate_on: str = setting("test", Role.IDENTITY, "what accuracy is measured on", ("test", "validation"))
    seed: int = setting(0, Role.IDENTITY, "seed of the learner and of a generated stream", low=0, axis=True)
    sampler: str = setting("auto", Role.IDENTITY, "memory sampler; auto: sieve with a light network", axis=True,
        family="puridiver.memory:puridiver.memory.base.Sampler")
    trainer: str = setting("auto", Role.IDENTITY, "robust trainer; auto: verdict with a light one", axis=True,
        family="puridiver.trainers:puridiver.trainers.base.Trainer")
    recipe: str = setting("puridiver", Role.OPTIONS, "named set of options; `puridiver methods` lists them")
    memory: int | None = setting(None, Role.IDENTITY, "samples in the memory (default: what suits the data)", low=1)
    network: str | None = setting(None, Role.IDENTITY, "network, or a frozen backbone by name, timm:NAME or hf:NAME "
        "(default: what suits the data; for images of your own on a CPU convnet)",
        family="puridiver.nets:puridiver.nets.base.Network")
    epochs: int | None = setting(None, Role.OPTIONS, "memory epochs after each task, 0: none (default: the recipe's)",
        low=0)
    device: str = setting("auto", Role.MACHINE, "auto, cpu, cuda or cuda:N")
    precision: str = setting("auto", Role.MACHINE, "of a GPU's convolutions", ("auto", "float32", "bfloat16"))
    graphs: bool = setting(True, Role.MACHINE, "capture steps as CUDA graphs on a GPU")
    tell_noise: bool = setting(False, Role.IDENTITY, "tell the trainer the true noise (Co-teaching, DivideMix)")
    anytime_points: int = setting(5, Role.IDENTITY, "evaluations during each task's stream", low=0)
    evaluate_epochs: bool = setting(False, Role.MEASUREMENT, "also evaluate after every memory epoch of the last task "
        "(gives best_epoch_accuracy)")
    live: bool = setting(False, Role.MEASUREMENT, "also measure accuracy on each stream batch before it is learnt")
    diversity: bool | None = setting(None, Role.MEASUREMENT, "measure the memory's diversity with a jointly trained "
        "network (default: only for small data)")
    stream_limit: int | None = setting(None, Role.IDENTITY, "use N samples of each task: a quick look", low=1)
    test_limit: int | None = setting(None, Role.IDENTITY, "evaluate on the first N images: a quick look", low=1)
    options: dict[str, Any] = field(default_factory=dict)  # by name, from --set; their role is OPTIONS
    # fmt: on

    def __post_init__(self) -> None:
        from puridiver.streams.published import parse_published  # imports torch, which flags can do without

        for name, declared in SETTINGS.items():
            object.__setattr__(self, name, declared.checked(getattr(self, name)))
        if not isinstance(self.options, dict) or not set(map(type, self.options)) <= {str}:
            raise ValueError(f"options should be a dict of options by name, but got {self.options!r}")
        if self.stream.startswith("official:"):  # in full, so that every record names the order
            noise, seed, order = parse_published(self.stream)
            object.__setattr__(self, "stream", f"official:{noise}:{seed}:{order}")

    @property
    def ready_made_stream(self) -> bool:
        """Whether the stream is a manifest or a published one, and not generated by the config."""
        return self.stream.endswith(".json") or self.stream.startswith("official:")

    def values(self, *roles: Role, changed: bool = False) -> dict[str, Any]:
        """The fields with these roles (by default all); with `changed` only those that differ from their defaults."""
        found = dict[str, Any]()
        for name, declared in SETTINGS.items():
            value = getattr(self, name)
            if declared.role in (roles or Role) and (value != declared.default or not changed):
                found[name] = value
        if Role.OPTIONS in (roles or Role) and (self.options or not changed):
            found["options"] = self.options
        return found

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Self:
        """The config with these values; a ValueError names an unknown field or a wrong value."""
        if unknown := [name for name in values if name not in (*SETTINGS, "options")]:
            raise ValueError(f"there is no setting {unknown[0]!r} of a run; the settings are {', '.join(SETTINGS)}")
        return cls(**values)


SETTINGS: dict[str, Setting] = {}  # all fields but `options`, which has a declaration for each option
for _name, _annotation in get_type_hints(RunConfig).items():
    if _declared := RunConfig.__dataclass_fields__[_name].metadata.get("setting"):
        SETTINGS[_name] = replace(_declared, name=_name, annotation=_annotation)


def command_for(config: RunConfig, plugins: Iterable[str] = ()) -> str:
    """The `puridiver run` command of a config, to be given in the same folder; without the paths of this machine."""
    words = ["puridiver", "run"]
    for name, value in config.values(changed=True).items():
        flag = name.replace("_", "-")
        if name == "options":
            words += [word for option, given in value.items() for word in ("--set", f"{option}={given}")]
        elif isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            place = SETTINGS[name].role is Role.PLACE
            words += [f"--{flag}", name.upper() if place else place_in_record(str(value))]
    for file in dict.fromkeys(plugins):
        words += ["--plugin", place_in_record(file)]
    return shlex.join(words)


def place_in_record(value: str) -> str:
    """How a record names a file: by the path from the working folder, and by its name alone if it is not in there."""
    from puridiver.streams.noise import MATRIX_FILE  # imports torch, too

    if value.startswith(MATRIX_FILE):
        return MATRIX_FILE + place_in_record(value.removeprefix(MATRIX_FILE))
    if not os.path.isabs(value):
        return value
    inside = os.path.relpath(value)
    return Path(value).name or value if inside.split(os.sep)[0] in (os.curdir, os.pardir) else inside
