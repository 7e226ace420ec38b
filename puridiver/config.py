"""What decides a run: `RunConfig`, from which the command line's flags are made, and how options are resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from puridiver.recipes import Options, recipe, replaced, suited, suited_to_size

if TYPE_CHECKING:
    from puridiver.data.base import DataSource


def setting(default: Any, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


LEAST = {
    "tasks": 1, "holdout": 0, "seed": 0, "memory": 1, "epochs": 1, "anytime_points": 0, "stream_limit": 1,
    "test_limit": 1,
}  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run. The command line's flags are made from these fields."""

    data: str = setting(
        "digits",
        "digits, cifar10, cifar100, or an .npz file with train_images, train_labels, test_images, test_labels "
        "(and class_names)",
    )
    data_root: str | None = setting(None, "folder that holds the data sets (default: the user's cache)")
    stream: str = setting(
        "blurry-10",
        "blurry-L (L %% minor samples), disjoint, official:NOISE:SEED, or the path of a manifest.json",
    )
    splits: str | None = setting(None, "where official split files lie (.npz, or a folder; default: data root)")
    tasks: int = setting(5, "number of tasks of a generated stream")
    noise: str = setting(
        "sym-40",
        "label noise of a generated stream: none, sym-RATE or asym-RATE (for a class map of your own make the stream "
        "with `puridiver stream make --noise-map`)",
    )
    noise_map: str | None = setting(
        None, "named class map of asymmetric noise: next or spr-cifar10 (default: the data's own)"
    )
    holdout: int = setting(0, "train images kept out of a generated stream for validation")
    evaluate_on: str = setting("test", "what accuracy is measured on", ("test", "validation"))
    seed: int = setting(0, "seed of the learner and of a generated stream")
    sampler: str = setting("puridiver", "memory sampler; `puridiver methods` lists them")
    trainer: str = setting("puridiver", "robust trainer; `puridiver methods` lists them")
    recipe: str = setting("puridiver", "named set of options; `puridiver methods` lists them")
    memory: int | None = setting(None, "samples the memory holds (default: what suits the data)")
    network: str | None = setting(None, "small, resnet18, resnet32 or resnet34 (default: what suits the data)")
    epochs: int | None = setting(None, "memory epochs after each task (default: the recipe's, or what suits the data)")
    device: str = setting("auto", "auto, cpu, cuda or cuda:N")
    precision: str = setting("auto", "of convolutions on a GPU", ("auto", "float32", "bfloat16"))
    graphs: bool = setting(True, "capture steps as CUDA graphs on a GPU")
    tell_noise: bool = setting(False, "tell the trainer the true kind and rate of the noise (Co-teaching, DivideMix)")
    anytime_points: int = setting(5, "evaluations during each task's stream")
    evaluate_epochs: bool = setting(False, "also evaluate after every memory epoch (gives best_epoch_accuracy; slow)")
    diversity: bool | None = setting(
        None, "measure the memory's diversity with a jointly trained network (default: only for small data)"
    )
    stream_limit: int | None = setting(None, "use only the first N samples of each task, for a quick look")
    test_limit: int | None = setting(None, "evaluate on only the first N images, for a quick look")
    options: dict[str, Any] = field(default_factory=dict)  # recipe options by name, from --set

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} should be at least {least}, but got {value}")

    @property
    def shortened(self) -> bool:
        """Whether the figures are of a quick look and not of the whole protocol."""
        return self.stream_limit is not None or self.test_limit is not None


def resolve_options(config: RunConfig, source: DataSource) -> Options:
    """The recipe, then what suits the images' size, then what suits the data, then the user's word."""
    options = suited(suited_to_size(recipe(config.recipe), source.image_shape), source.defaults)
    asked = dict(config.options)
    if config.epochs is not None:
        asked["epochs"] = config.epochs
    return replaced(options, asked)


def resolve_memory(config: RunConfig, source: DataSource) -> int:
    return int(source.defaults.get("memory", 500)) if config.memory is None else config.memory


def resolve_network(config: RunConfig, source: DataSource) -> str:
    from puridiver.nets import suggest_network  # needs torch, which the command line's flags do not

    chosen = config.network or source.defaults.get("network", "auto")
    return suggest_network(source.image_shape) if chosen == "auto" else chosen


def resolve_diversity(config: RunConfig, source: DataSource) -> bool:
    return bool(source.defaults.get("diversity", False)) if config.diversity is None else config.diversity
