"""The configuration of a run. Each field of `RunConfig` declares its default, help, limits and role, once.

Everything else derives from these declarations (`SETTINGS`): the flags of `puridiver run` and `puridiver grid`, the
keys of a grid file and their checks, the command line in a record, the identity of a run, and which fields a
ready-made stream forbids. To add an option to `run`, add a field here.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self, get_args, get_type_hints

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


def setting(
    default: Any,
    help: str,
    role: Role,
    *,
    choices: tuple[str, ...] = (),
    least: int | None = None,
    axis: bool = False,
    path: bool = False,
    family: str = "",
) -> Any:
    """Declare a field of `RunConfig`.

    `axis` marks what a grid varies, in lists of its own. `path` marks what is, or may be, a file or a folder. `family`
    is the "package:base class" whose members the help lists.
    """
    told = {"help": help, "role": role, "choices": choices, "least": least, "axis": axis, "path": path,
            "family": family}  # fmt: skip
    return field(default=default, metadata=told)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run."""

    data: str = setting(
        "digits",
        "a data set by name; a folder with a folder of images for each class; a .csv, .jsonl or .parquet table of "
        "paths and labels; or an .npz file of arrays",
        Role.SOURCE,
        axis=True,
        path=True,
        family="puridiver.data.sets:puridiver.data.base.DataSet",
    )
    data_root: str | None = setting(
        None, "folder that holds the data sets (default: the user's cache)", Role.PLACE, path=True
    )
    image_size: int | None = setting(
        None, "pixels that image files are resized to (default: 32, or the data's)", Role.SOURCE, least=1
    )
    test_share: float | None = setting(
        None, "share of your own images that is kept for testing, such as 0.2", Role.SOURCE, least=0
    )
    bad_files: str = setting(
        "refuse", "what happens when image files cannot be read", Role.SOURCE, choices=("refuse", "skip")
    )
    trust_labels: bool = setting(
        False, "take the labels of your own images for true, so that noise can be measured", Role.SOURCE
    )
    stream: str = setting(
        "blurry-10",
        "blurry-L (L percent minor samples), disjoint, time (the order of timestamps), official:NOISE:SEED "
        "(published, each task shuffled; with :listed at the end in the files' order), or the path of a manifest.json, "
        "in which {seed} stands for the seed",
        Role.SOURCE,
        axis=True,
        path=True,
    )
    splits: str | None = setting(
        None, "where official split files lie (.npz, or a folder; default: data root)", Role.PLACE, path=True
    )
    tasks: int | None = setting(
        None, "number of tasks of a generated stream (default: 5, or what suits the data)", Role.STREAM, least=1
    )
    noise: str | None = setting(
        None,
        "label noise of a generated stream (default: sym-40; none for data of your own, whose labels pass as they "
        "came)",
        Role.STREAM,
        axis=True,
        path=True,
        family="puridiver.streams.noises:puridiver.streams.noise.Noise",
    )
    noise_file: str | None = setting(
        None, "for human noise: CIFAR-10N's or CIFAR-100N's file (.pt)", Role.STREAM, path=True
    )
    noise_map: str | None = setting(
        None, "named class map of asymmetric noise: next, pairs or spr-cifar10 (default: the data's own)", Role.STREAM
    )
    imbalance: float | None = setting(
        None,
        "long-tailed classes in a generated stream: the rarest has this share of the most frequent one's images",
        Role.STREAM,
        least=0,
    )
    holdout: int = setting(0, "train images kept out of a generated stream for validation", Role.STREAM, least=0)
    evaluate_on: str = setting("test", "what accuracy is measured on", Role.IDENTITY, choices=("test", "validation"))
    seed: int = setting(0, "seed of the learner and of a generated stream", Role.IDENTITY, least=0, axis=True)
    sampler: str = setting(
        "puridiver",
        "memory sampler",
        Role.IDENTITY,
        axis=True,
        family="puridiver.memory:puridiver.memory.base.Sampler",
    )
    trainer: str = setting(
        "puridiver",
        "robust trainer",
        Role.IDENTITY,
        axis=True,
        family="puridiver.trainers:puridiver.trainers.base.Trainer",
    )
    recipe: str = setting("puridiver", "named set of options; `puridiver methods` lists them", Role.OPTIONS)
    memory: int | None = setting(
        None, "samples the memory holds (default: what suits the data)", Role.IDENTITY, least=1
    )
    network: str | None = setting(
        None,
        "network (default: what suits the data; on a CPU small for data of your own)",
        Role.IDENTITY,
        family="puridiver.nets:puridiver.nets.base.Network",
    )
    epochs: int | None = setting(
        None, "memory epochs after each task (default: the recipe's, or what suits the data)", Role.OPTIONS, least=1
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:N", Role.MACHINE)
    precision: str = setting("auto", "of convolutions on a GPU", Role.MACHINE, choices=("auto", "float32", "bfloat16"))
    graphs: bool = setting(True, "capture steps as CUDA graphs on a GPU", Role.MACHINE)
    tell_noise: bool = setting(
        False, "tell the trainer the true kind and rate of the noise (Co-teaching, DivideMix)", Role.IDENTITY
    )
    anytime_points: int = setting(5, "evaluations during each task's stream", Role.IDENTITY, least=0)
    evaluate_epochs: bool = setting(
        False, "also evaluate after every memory epoch of the last task (gives best_epoch_accuracy)", Role.MEASUREMENT
    )
    diversity: bool | None = setting(
        None,
        "measure the memory's diversity with a jointly trained network (default: only for small data)",
        Role.MEASUREMENT,
    )
    stream_limit: int | None = setting(
        None, "use only the first N samples of each task, for a quick look", Role.IDENTITY, least=1
    )
    test_limit: int | None = setting(
        None, "evaluate on only the first N images, for a quick look", Role.IDENTITY, least=1
    )
    options: dict[str, Any] = field(
        default_factory=dict, metadata={"role": Role.OPTIONS}
    )  # options of the methods by name, from --set

    def __post_init__(self) -> None:
        from puridiver.streams.names import is_published, parse_published  # imports torch, which flags can do without

        for name, declared in SETTINGS.items():
            object.__setattr__(self, name, declared.checked(getattr(self, name)))
        if not isinstance(self.options, dict) or not all(isinstance(name, str) for name in self.options):
            raise ValueError(f"options should be a dict of options by name, but got {self.options!r}")
        if is_published(self.stream):  # in full, so that every record names the order
            object.__setattr__(self, "stream", str(parse_published(self.stream)))

    @property
    def shortened(self) -> bool:
        """Whether the run is a quick look and not the whole protocol."""
        return self.stream_limit is not None or self.test_limit is not None

    @property
    def ready_made_stream(self) -> bool:
        """Whether the stream is a manifest or a published one, and not generated by the config."""
        from puridiver.streams.names import is_manifest, is_published

        return is_manifest(self.stream) or is_published(self.stream)

    def of_role(self, *roles: Role) -> dict[str, Any]:
        """The values of all fields with these roles."""
        return {name: getattr(self, name) for name in fields_of(*roles)}

    def changed(self, *roles: Role) -> dict[str, Any]:
        """The fields with these roles (all without any) whose values are not the defaults."""
        default = RunConfig()
        names = fields_of(*(roles or Role))
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(default, name)}

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Self:
        """The config with these values; a ValueError names an unknown field or a wrong value."""
        names = [spec.name for spec in dataclasses.fields(cls)]
        if unknown := [name for name in values if name not in names]:
            raise ValueError(f"there is no setting {unknown[0]!r} of a run; the settings are {', '.join(names)}")
        return cls(**values)


@dataclass(frozen=True)
class Setting:
    """A field of `RunConfig` as it is declared, for flags, file keys and checks."""

    name: str
    kind: type  # bool, int, float or str
    optional: bool  # None is allowed, and means: what suits the data
    default: Any
    help: str
    role: Role
    choices: tuple[str, ...]
    least: int | None
    axis: bool
    path: bool
    family: str

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

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
            raise ValueError(f"{self.name} should be one of {', '.join(self.choices)}, but got {value!r}")
        return value


KINDS: dict[type, tuple[type, str]] = {
    bool: (bool, "True or False"), int: (Integral, "a whole number"), float: (Real, "a number"), str: (str, "a text"),
}  # fmt: skip


def _declared() -> dict[str, Setting]:
    """All fields but `options`, which has a declaration for each option (puridiver/options.py)."""
    hints = get_type_hints(RunConfig)
    found = {}
    for spec in dataclasses.fields(RunConfig):
        if "help" in spec.metadata:
            hint = hints[spec.name]
            kinds = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
            kind = next(kind for kind in kinds if kind is not type(None))
            found[spec.name] = Setting(spec.name, kind, type(None) in kinds, spec.default, **spec.metadata)
    return found


SETTINGS: dict[str, Setting] = _declared()


def fields_of(*roles: Role) -> list[str]:
    """The names of the fields with these roles, as declared."""
    return [spec.name for spec in dataclasses.fields(RunConfig) if spec.metadata["role"] in roles]


# How records name a run --------------------------------------------------------------------------------------------


def command_for(config: RunConfig, plugins: Iterable[str] = ()) -> str:
    """The `puridiver run` command of a config, to be given in the same folder; without the paths of this machine."""
    words = ["puridiver", "run"]
    for name, value in config.changed().items():
        if name == "options":
            continue
        declared = SETTINGS[name]
        if declared.kind is bool:
            words.append(declared.flag if value else declared.flag.replace("--", "--no-", 1))
        else:
            text = name.upper() if declared.role is Role.PLACE else place_in_record(str(value))
            words += [declared.flag, text]
    for name, value in config.options.items():
        words += ["--set", f"{name}={value}"]
    for place in dict.fromkeys(plugins):
        words += ["--plugin", place_in_record(place)]
    return shlex.join(words)


def place_in_record(value: str) -> str:
    """How a record names a file or folder: by the path from the working folder, and by its name alone if not in there.

    So the command of a record finds it again from the same folder, and no record tells how a machine is laid out.
    """
    from puridiver.streams.names import MATRIX_FILE

    if value.startswith(MATRIX_FILE):
        return MATRIX_FILE + place_in_record(value.removeprefix(MATRIX_FILE))
    if not os.path.isabs(value):
        return value
    inside = os.path.relpath(value)
    return without_folder(value) if inside.split(os.sep)[0] in (os.curdir, os.pardir) else inside


def without_folder(value: str) -> str:
    """The name alone of a file or folder that data, a stream or noise are read from; anything else as it is."""
    from puridiver.streams.names import MATRIX_FILE

    if value.startswith(MATRIX_FILE):
        return MATRIX_FILE + Path(value.removeprefix(MATRIX_FILE)).name
    return (Path(value).name or value) if os.sep in value else value
