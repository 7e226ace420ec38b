"""The configuration of a run. Each field of `RunConfig` declares its default, help, limits and role, once.

Flags, the keys of grid files, checks, the command in a record and the identity of a run derive from `SETTINGS`. To add
an option to `run`, add a field here.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args, get_type_hints

from puridiver.errors import meant

LARGEST_NUMBER = 2**63 - 1


class Role(StrEnum):
    """What a field of `RunConfig` decides."""

    SOURCE = "source"  # which data and which stream; the stream's content hash stands for it in the identity
    STREAM = "stream"  # how a generated stream is made; hashed with its content, and forbidden for a ready-made one
    OPTIONS = "options"  # the options of the methods; they enter the identity resolved
    IDENTITY = "identity"  # anything else that decides the figures; it enters the identity
    MEASUREMENT = "measurement"  # adds figures to a run that is the same without them
    PLACE = "place"  # where files lie on this machine
    MACHINE = "machine"  # how this machine computes; recorded beside the identity


KINDS: dict[type, tuple[Any, str]] = {
    bool: (bool, "True or False"), int: (Integral, "a whole number"), float: (Real, "a number"), str: (str, "a text"),
}  # fmt: skip


class Setting(NamedTuple):
    """The declaration of a field of `RunConfig`, for flags, file keys and checks."""

    default: Any
    role: Role
    help: str
    choices: tuple[str, ...] = ()
    least: int | None = None
    axis: bool = False  # grids vary it in lists of their own
    path: bool = False  # it may name a file
    family: str = ""  # the "package:base class" whose members the help lists
    # From the annotation of the field:
    name: str = ""
    kind: type = str  # or bool, int, float
    optional: bool = False  # None is allowed, and means: what suits the data

    def checked(self, value: Any) -> Any:
        """The value, if the field may have it; else a ValueError that says what it should be."""
        if value is None and self.optional:
            return None
        allowed, words = KINDS[self.kind]
        if not isinstance(value, allowed) or (isinstance(value, bool) and self.kind is not bool):
            raise ValueError(f"{self.name} should be {words}, but got {value!r}")
        if self.kind in (int, float):
            if not abs(value) <= LARGEST_NUMBER:  # nan is not, either
                raise ValueError(f"{self.name} should be {words} of at most {LARGEST_NUMBER}")
            value = self.kind(value)
            if self.least is not None and value < self.least:
                raise ValueError(f"{self.name} should be at least {self.least}, but got {value}")
        if self.choices and value not in self.choices:
            near = meant(value, self.choices)
            raise ValueError(f"{self.name} should be one of {', '.join(self.choices)}, but got {value!r}{near}")
        return value


def setting(default: Any, role: Role, help: str, choices: tuple[str, ...] = (), **declared: Any) -> Any:
    """Declare a field by a `Setting`."""
    return field(default=default, metadata={"setting": Setting(default, role, help, choices, **declared)})


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run."""

    # fmt: off
    data: str = setting("digits", Role.SOURCE, "a data set by name; a folder with a folder of images for each class; a "
        ".csv, .jsonl or .parquet table of paths and labels; or an .npz file of arrays", axis=True, path=True,
        family="puridiver.data.sets:puridiver.data.base.DataSet")
    data_root: str | None = setting(None, Role.PLACE, "folder of the data sets (default: the user's cache)", path=True)
    image_size: int | None = setting(None, Role.SOURCE, "pixels of image files (default: the data set's; for your own "
        "files 32, or their common size from 4 to 64)", least=1)
    test_share: float | None = setting(None, Role.SOURCE, "share of your own images for testing, such as 0.2", least=0)
    bad_files: str = setting("refuse", Role.SOURCE, "what happens when image files cannot be read", ("refuse", "skip"))
    trust_labels: bool = setting(False, Role.SOURCE, "take the labels of your own images for true, to measure noise")
    stream: str = setting("blurry-10", Role.SOURCE, "blurry-L (L percent minor samples), disjoint, i-blurry-N-M (N "
        "percent of classes disjoint, the others blurry-M), time (the order of timestamps), official:NOISE:SEED "
        "(published, each task shuffled; with :listed at the end as in the files), or the path of a manifest.json, in "
        "which {seed} stands for the seed", axis=True, path=True)
    splits: str | None = setting(None, Role.PLACE, "where official split files lie (default: data root)", path=True)
    tasks: int | None = setting(None, Role.STREAM, "tasks of a generated stream (default: 5, or the data's)", least=1)
    noise: str | None = setting(None, Role.STREAM, "label noise of a generated stream (default: sym-40; none for data "
        "of your own, which keep their labels)", axis=True, path=True,
        family="puridiver.streams.noises:puridiver.streams.noise.Noise")
    noise_file: str | None = setting(None, Role.STREAM, "for human noise: CIFAR-10N's or CIFAR-100N's file", path=True)
    noise_map: str | None = setting(None, Role.STREAM, "class map of asymmetric noise: next, pairs or spr-cifar10 "
        "(default: the data's own)")
    imbalance: float | None = setting(None, Role.STREAM, "long-tailed classes in a generated stream: the rarest has "
        "this share of the most frequent one's images", least=0)
    holdout: int = setting(0, Role.STREAM, "train images kept out of a generated stream for validation", least=0)
    evaluate_on: str = setting("test", Role.IDENTITY, "what accuracy is measured on", ("test", "validation"))
    seed: int = setting(0, Role.IDENTITY, "seed of the learner and of a generated stream", least=0, axis=True)
    sampler: str = setting("auto", Role.IDENTITY, "memory sampler; auto: sieve with a light network", axis=True,
        family="puridiver.memory:puridiver.memory.base.Sampler")
    trainer: str = setting("auto", Role.IDENTITY, "robust trainer; auto: verdict with a light one", axis=True,
        family="puridiver.trainers:puridiver.trainers.base.Trainer")
    recipe: str = setting("puridiver", Role.OPTIONS, "named set of options; `puridiver methods` lists them")
    memory: int | None = setting(None, Role.IDENTITY, "samples in the memory (default: what suits the data)", least=1)
    network: str | None = setting(None, Role.IDENTITY, "network, or a frozen backbone by name, timm:NAME or hf:NAME "
        "(default: what suits the data; for images of your own on a CPU convnet)",
        family="puridiver.nets:puridiver.nets.base.Network")
    epochs: int | None = setting(None, Role.OPTIONS, "memory epochs after each task, 0: none (default: the recipe's)",
        least=0)
    device: str = setting("auto", Role.MACHINE, "auto, cpu, cuda or cuda:N")
    precision: str = setting("auto", Role.MACHINE, "of a GPU's convolutions", ("auto", "float32", "bfloat16"))
    graphs: bool = setting(True, Role.MACHINE, "capture steps as CUDA graphs on a GPU")
    tell_noise: bool = setting(False, Role.IDENTITY, "tell the trainer the true noise (Co-teaching, DivideMix)")
    anytime_points: int = setting(5, Role.IDENTITY, "evaluations during each task's stream", least=0)
    evaluate_epochs: bool = setting(False, Role.MEASUREMENT, "also evaluate after every memory epoch of the last task "
        "(gives best_epoch_accuracy)")
    live: bool = setting(False, Role.MEASUREMENT, "also measure accuracy on each stream batch before it is learnt")
    diversity: bool | None = setting(None, Role.MEASUREMENT, "measure the memory's diversity with a jointly trained "
        "network (default: only for small data)")
    stream_limit: int | None = setting(None, Role.IDENTITY, "use N samples of each task: a quick look", least=1)
    test_limit: int | None = setting(None, Role.IDENTITY, "evaluate on the first N images: a quick look", least=1)
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
for _name, _hint in get_type_hints(RunConfig).items():
    if _declared := RunConfig.__dataclass_fields__[_name].metadata.get("setting"):
        _kinds = get_args(_hint) or (_hint,)
        SETTINGS[_name] = _declared._replace(name=_name, kind=_kinds[0], optional=type(None) in _kinds)


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
