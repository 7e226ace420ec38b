"""What decides a run: `RunConfig`, from which the command line's flags are made, and how options are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any

from puridiver.recipes import Options, recipe, replaced, suited, suited_to_size, with_own
from puridiver.streams.names import is_published, parse_published

if TYPE_CHECKING:
    from puridiver.data.base import DataSource


STANDARD_TASKS = 5  # of a generated stream, where the data says nothing else
STANDARD_MEMORY, LEAST_MEMORY = 500, 50  # likewise, by the size of the data


def setting(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


LEAST = {
    "tasks": 1, "holdout": 0, "seed": 0, "memory": 1, "epochs": 1, "anytime_points": 0, "stream_limit": 1,
    "test_limit": 1, "image_size": 1,
}  # fmt: skip
BOOLEANS = ("trust_labels", "graphs", "tell_noise", "evaluate_epochs", "diversity")


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run. The command line's flags are made from these fields."""

    data: str = setting(
        "digits",
        "digits, cifar10, cifar100, webvision, food101n; a folder with a folder of images for each class; a .csv, "
        ".jsonl or .parquet table of paths and labels; or an .npz file of arrays (docs/DATA.md)",
    )
    data_root: str | None = setting(None, "folder that holds the data sets (default: the user's cache)")
    image_size: int | None = setting(None, "pixels that image files are resized to (default: 32, or the data's)")
    test_share: float | None = setting(None, "share of your own images that is kept for testing, such as 0.2")
    bad_files: str = setting("refuse", "what happens when image files cannot be read", ("refuse", "skip"))
    trust_labels: bool = setting(False, "take the labels of your own images for true, so that noise can be measured")
    stream: str = setting(
        "blurry-10",
        "blurry-L (L %% minor samples), disjoint, time (the order of timestamps), official:NOISE:SEED "
        "(published, each task shuffled; with :listed at the end in the files' order), or the path of a manifest.json, "
        "in which {seed} stands for the seed",
    )
    splits: str | None = setting(None, "where official split files lie (.npz, or a folder; default: data root)")
    tasks: int | None = setting(None, "number of tasks of a generated stream (default: 5, or what suits the data)")
    noise: str | None = setting(
        None,
        "label noise of a generated stream: none, sym-RATE, asym-RATE, instance-RATE, human:SET or matrix:FILE (.npy "
        "or .csv, row the true class, column the given one, rows sum to 1). For a class map of your own make the "
        "stream with `puridiver stream make --noise-map` (default: sym-40, and none for data of your own, whose "
        "labels pass as they came)",
    )
    noise_file: str | None = setting(None, "for human noise: CIFAR-10N's or CIFAR-100N's file (.pt, .npz, .npy)")
    noise_map: str | None = setting(
        None, "named class map of asymmetric noise: next, pairs or spr-cifar10 (default: the data's own)"
    )
    imbalance: float | None = setting(
        None, "long-tailed classes in a generated stream: the rarest has this share of the most frequent one's images"
    )
    holdout: int = setting(0, "train images kept out of a generated stream for validation")
    evaluate_on: str = setting("test", "what accuracy is measured on", ("test", "validation"))
    seed: int = setting(0, "seed of the learner and of a generated stream")
    sampler: str = setting("puridiver", "memory sampler; `puridiver methods` lists them")
    trainer: str = setting("puridiver", "robust trainer; `puridiver methods` lists them")
    recipe: str = setting("puridiver", "named set of options; `puridiver methods` lists them")
    memory: int | None = setting(None, "samples the memory holds (default: what suits the data)")
    network: str | None = setting(
        None,
        "small, resnet18, resnet32, resnet34 or a plugin's (default: what suits the data; of your own on a CPU small)",
    )
    epochs: int | None = setting(None, "memory epochs after each task (default: the recipe's, or what suits the data)")
    device: str = setting("auto", "auto, cpu, cuda or cuda:N")
    precision: str = setting("auto", "of convolutions on a GPU", ("auto", "float32", "bfloat16"))
    graphs: bool = setting(True, "capture steps as CUDA graphs on a GPU")
    tell_noise: bool = setting(False, "tell the trainer the true kind and rate of the noise (Co-teaching, DivideMix)")
    anytime_points: int = setting(5, "evaluations during each task's stream")
    evaluate_epochs: bool = setting(
        False, "also evaluate after every memory epoch of the last task (gives best_epoch_accuracy)"
    )
    diversity: bool | None = setting(
        None, "measure the memory's diversity with a jointly trained network (default: only for small data)"
    )
    stream_limit: int | None = setting(None, "use only the first N samples of each task, for a quick look")
    test_limit: int | None = setting(None, "evaluate on only the first N images, for a quick look")
    options: dict[str, Any] = field(default_factory=dict)  # recipe options by name, from --set

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is None and getattr(RunConfig, name) is None:
                continue
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise ValueError(f"{name} should be a whole number, but got {value!r}")
            if value < least:
                raise ValueError(f"{name} should be at least {least}, but got {value}")
        for name in BOOLEANS:
            value = getattr(self, name)
            if not isinstance(value, bool) and (value is not None or getattr(RunConfig, name) is not None):
                raise ValueError(f"{name} should be True or False, but got {value!r}")
        if is_published(self.stream):  # in full, so that every record tells the order
            object.__setattr__(self, "stream", str(parse_published(self.stream)))

    @property
    def shortened(self) -> bool:
        """Whether the figures are of a quick look and not of the whole protocol."""
        return self.stream_limit is not None or self.test_limit is not None


def resolve_options(config: RunConfig, source: DataSource) -> Options:
    """The recipe, then what suits the images' size, then what suits the data, then the user's word."""
    options = suited(suited_to_size(recipe(config.recipe), source.image_shape), source.defaults)
    if source.defaults.get("halve_epochs"):  # as the paper does for the web sets: 256 to 128 (and 255 to 127)
        options = replaced(options, {"epochs": options.epochs // 2})
    asked = dict(config.options)
    if config.epochs is not None:
        asked["epochs"] = config.epochs
    return with_methods_own(replaced(options, asked), config)


def with_methods_own(options: Options, config: RunConfig) -> Options:
    """The options with those that the config's methods and network declare themselves, and no other method's."""
    from puridiver import plugins  # needs torch, which the command line's flags do not

    return with_own(options, plugins.own_options(config.sampler, config.trainer, config.network or "", options.own))


def resolve_tasks(config: RunConfig, source: DataSource) -> int:
    return int(source.defaults.get("tasks", STANDARD_TASKS)) if config.tasks is None else config.tasks


def resolve_noise(config: RunConfig, source: DataSource) -> str:
    return str(source.defaults.get("noise", "sym-40")) if config.noise is None else config.noise


def resolve_memory(config: RunConfig, source: DataSource) -> int:
    """By default 500, as the paper has it for CIFAR-10, but of a small set of your own no more than a fifth."""
    few = min(STANDARD_MEMORY, max(len(source.train) // 5, LEAST_MEMORY))
    return int(source.defaults.get("memory", few)) if config.memory is None else config.memory


def resolve_network(config: RunConfig, source: DataSource) -> str:
    from puridiver.nets import suggest_network  # needs torch, which the command line's flags do not
    from puridiver.runtime.device import choose_runtime

    chosen = config.network or source.defaults.get("network", "auto")
    return suggest_network(source.image_shape, choose_runtime(config.device).device) if chosen == "auto" else chosen


def resolve_diversity(config: RunConfig, source: DataSource) -> bool:
    return bool(source.defaults.get("diversity", False)) if config.diversity is None else config.diversity
