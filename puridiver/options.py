"""Options of the method: what one option may be, the named recipes, and how a run's options are resolved.

Options that every method shares are declared here. A sampler, trainer or network declares its own in its class,
`own_options = {"gce_q": Option(0.7, "the power")}`. All names share one flat namespace, so `--set gce_q=0.5` sets it.
"[row n]" in a help text is the row of docs/fidelity.md on which the paper and its released program differ.
"""

from __future__ import annotations

import difflib
import importlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KINDS = (bool, int, float, str)
NAME = re.compile(r"[a-z][a-z0-9_]*")
SWITCHES = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


@dataclass(frozen=True)
class Option:
    """One option: its default, which fixes its type, and the values it allows.

    Parameters
    ----------
    choices
        The allowed words, or a function that returns them.
    low, high
        Bounds of a number, included.
    off
        The value that switches off what the option controls. Defaults that suit some data never switch it on again.
    """

    default: bool | int | float | str
    help: str = ""
    choices: tuple[str, ...] | Callable[[], Iterable[str]] = ()
    low: float = -math.inf
    high: float = math.inf
    off: Any = 0

    def allowed(self) -> tuple[str, ...]:
        """The allowed words; empty where any value of the type is allowed."""
        return tuple(self.choices()) if callable(self.choices) else self.choices

    def check(self, name: str, value: Any) -> Any:
        """Return the value in the option's type, or raise a ValueError that says what is allowed."""
        kind: Any = type(self.default)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ValueError(f"option {name} should be {kind.__name__}, but got {value!r}")
        if (words := self.allowed()) and value not in words:
            raise ValueError(f"option {name} should be one of {', '.join(words)}, but got {value!r}")
        if isinstance(value, int | float) and not (self.low <= value <= self.high and math.isfinite(value)):
            bounds = [f"at least {self.low:g}"] * (self.low > -math.inf) + [f"at most {self.high:g}"] * (
                self.high < math.inf
            )
            raise ValueError(f"option {name} should be {' and '.join(bounds) or 'finite'}, but got {value}")
        return value

    def parse(self, name: str, text: str) -> Any:
        """Read the value of `--set name=text` in the option's type."""
        kind: type = type(self.default)
        if kind is bool:
            if text.lower() not in SWITCHES:
                raise ValueError(f"option {name} should be true or false, but got {text!r}")
            return SWITCHES[text.lower()]
        try:
            return self.check(name, kind(text))
        except ValueError as error:
            if str(error).startswith("option "):
                raise
            raise ValueError(f"option {name} should be {kind.__name__}, but got {text!r}") from None


def _policies() -> Iterable[str]:
    from puridiver.augment import POLICIES

    return POLICIES


SHARED: dict[str, Option] = {
    # Online phase
    "batch_size": Option(16, "samples of a training batch", low=2),
    "online_lr": Option(0.05, "learning rate on the stream [row 12]", low=0),
    "online_steps": Option(1, "gradient steps on each stream batch", low=1),
    "replay": Option(
        "never",
        "when memory samples join stream batches [row 12]",
        ("never", "after_first_consolidation", "always"),
        off="never",
    ),
    "replay_size": Option(0, "memory samples that join a stream batch (0: as many as `batch_size`)", low=0),
    "online_cutmix": Option(0.0, "probability of CutMix on a stream batch [row 12]", low=0, high=1),
    "online_crop_flip": Option(False, "crop and mirror stream samples at random, anew for each gradient step"),
    "online_batchnorm": Option(
        "train",
        "train BatchNorm online, or freeze it once the memory is full; only for samplers that score with the network "
        "[row 13]",
        ("train", "frozen_when_full"),
        off="train",
    ),
    "online_average": Option(
        0.0,
        "decay of a moving average of the weights, such as 0.99; the sampler and predictions use it online and memory "
        "training starts from it (0: none)",
        low=0,
        high=0.99999,
    ),
    "online_prediction": Option(
        "network",
        "what predicts between consolidations: the live network, the snapshot of the last consolidation, or the mean "
        "of both; the live network always predicts classes that the snapshot saw too little of",
        ("network", "consolidated", "both"),
        off="network",
    ),
    "alpha_loss": Option(
        "stream", "Eq. 3's loss: of the stream samples or of the mixed training batch [row 3]", ("stream", "mixed")
    ),
    # Memory training
    "epochs": Option(256, "epochs of one consolidation [row 14]", low=1),
    "consolidations": Option(1, "consolidations of each task, `epochs` each, the last at the task's end", low=1),
    "lr": Option(0.05, "learning rate of memory training", low=0),
    "schedule": Option(
        "cosine", "one cosine to 0, or warm restarts with doubling periods [row 14]", ("cosine", "warm_restarts")
    ),
    "last_batch": Option(
        "left_out",
        "samples of a memory epoch that fill no whole batch: leave them out, or train on a smaller batch [row 24]",
        ("left_out", "trained"),
    ),
    "distil": Option(
        0.0, "weight of a loss in memory training that keeps features near those from before it, by cosine", low=0
    ),
    "momentum": Option(0.9, "momentum of SGD (Nesterov)", low=0, high=0.9999),
    "weight_decay": Option(1e-4, "weight decay", low=0),
    "cutmix": Option(0.5, "probability of CutMix on a memory batch", low=0, high=1),
    "crop_padding": Option(4, "pixels of padding before the random crop", low=0),
    "flip": Option(True, "mirror images at random"),
    "strong": Option("autoaugment", "policy of the strong augmentation s(.) [row 26]", _policies, off="none"),
    "weak": Option(
        "flip",
        "weak augmentation w(.): mirror, or crop and mirror; without `flip` a crop anyway [row 25]",
        ("flip", "crop_flip"),
    ),
    # Network
    "head": Option(
        "linear", "a linear layer, or one without bias and BatchNorm on the logits [row 15]",
        ("linear", "linear_batchnorm"),
    ),
    "block_relu": Option(
        "after_add", "where a residual block has its last ReLU [row 15]", ("after_add", "before_add")
    ),
    "batchnorm_epsilon": Option(1e-5, "epsilon of BatchNorm [row 15]", low=0),
    "shortcut_relu": Option(False, "ResNets: a ReLU after the convolution of a shortcut [row 27]"),
}  # fmt: skip

# The families whose classes declare options; importing one loads its folder.
FAMILIES = ("puridiver.memory", "puridiver.trainers", "puridiver.nets")

_declared: dict[str, Option] = dict(SHARED)
_owners: dict[str, set[str]] = {}  # option -> the methods that declare it, such as "trainer gce"


def declare(owner: str, options: Mapping[str, Any]) -> None:
    """Make the options of a method known; `owner` names it, such as "trainer gce"."""
    for name, option in options.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ValueError(f"{owner}: option names use lower-case letters, digits and _, but got {name!r}")
        if not isinstance(option, Option) or type(option.default) not in KINDS:
            raise ValueError(
                f'{owner}: declare an option as "{name}": Option(default, "help"), its default a bool, int, float or '
                f"str, but got {option!r}"
            )
        option.check(name, option.default)
        others = _owners.get(name, set()) - {owner}
        if name in SHARED or (others and _declared[name] != option):
            taken = "every method" if name in SHARED else " and ".join(sorted(others))
            raise ValueError(f"{owner}: the option name {name!r} is taken by {taken}: choose another")
    for name, option in options.items():
        _declared[name] = option
        _owners.setdefault(name, set()).add(owner)


def class_options(kind: type) -> dict[str, Option]:
    """The options that a class declares, together with those of the classes it derives from."""
    found: dict[str, Option] = {}
    for base in reversed(kind.__mro__):
        own = vars(base).get("own_options", {})
        if not isinstance(own, Mapping):
            raise ValueError(f"{base.__qualname__}: own_options should map names to Option(...), but got {own!r}")
        found |= own
    return found


def declare_family(family: str, kinds: Mapping[str, type]) -> None:
    """Make the options of all members of a family ("sampler", "trainer", "network") known."""
    for name, kind in kinds.items():
        declare(f"{family} {name}", class_options(kind))


def forget(owner: str) -> None:
    """Drop the options of a method that another definition replaces."""
    for name in [name for name, owners in _owners.items() if owner in owners]:
        _owners[name].remove(owner)
        if not _owners[name]:
            del _owners[name], _declared[name]


def declared() -> Mapping[str, Option]:
    """Every known option by name."""
    for family in FAMILIES:
        importlib.import_module(family)
    return _declared


def owners(name: str) -> list[str]:
    """The methods that declare an option, such as "trainer gce"; none for an option that all share."""
    return sorted(_owners.get(name, ()))


def unknown_option(name: str, others: Sequence[str] = ()) -> ValueError:
    """Build the error for a name that is no option; `others` are further names that the user may have meant."""
    names = sorted(declared())
    near = difflib.get_close_matches(name, [*names, *others])
    hint = f"did you mean {' or '.join(near)}?" if near else f"the options are {', '.join(names)}"
    return ValueError(f"there is no option {name!r}; {hint} (`puridiver methods --options` lists all)")


class Options(Mapping[str, Any]):
    """An immutable value for every declared option: `options.lr`, `options["lr"]`, `options.replace(lr=0.1)`.

    Without changes the options are those of the recipe `paper`.

    Examples
    --------
    >>> Options(lr=0.1).changed()
    {'lr': 0.1}
    """

    __slots__ = ("_changed",)
    _changed: dict[str, Any]

    def __init__(self, **changes: Any) -> None:
        known = declared()
        for name in changes:
            if name not in known:
                raise unknown_option(name)
        values = {name: known[name].check(name, value) for name, value in changes.items()}
        changed = {name: value for name, value in values.items() if value != known[name].default}
        object.__setattr__(self, "_changed", changed)

    def __getitem__(self, name: str) -> Any:
        return self._changed[name] if name in self._changed else _declared[name].default

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no option {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"options do not change: options.replace({name}=...) makes new ones")

    def __iter__(self) -> Iterator[str]:
        return iter(_declared)

    def __len__(self) -> int:
        return len(_declared)

    def __hash__(self) -> int:
        return hash(frozenset(self._changed.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._changed == other._changed

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self._changed.items())})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._changed,)

    def changed(self) -> dict[str, Any]:
        """The values that differ from the declared defaults."""
        return dict(self._changed)

    def replace(self, **changes: Any) -> Options:
        """New options with some values replaced."""
        return Options(**{**self._changed, **changes})

    def of(self, methods: Iterable[str]) -> dict[str, Any]:
        """The values that reach these methods ("trainer gce"): shared options and those the methods declare."""
        chosen = set(methods)
        return {name: self[name] for name in self if name not in _owners or _owners[name] & chosen}


def _rebuild(changed: dict[str, Any]) -> Options:
    return Options(**changed)


def check_reached(names: Iterable[str], methods: Sequence[str]) -> None:
    """Raise a ValueError where an option belongs to methods other than the chosen ones ("trainer gce")."""
    for name in names:
        if (having := owners(name)) and not set(having) & set(methods):
            raise ValueError(
                f"{name} is an option of the {' and the '.join(having)}, but the run uses the "
                f"{' and the '.join(methods)}: leave the option out, or choose the method"
            )


def parse(assignments: Iterable[str]) -> dict[str, Any]:
    """Read `name=value` words, such as those of `--set`, into values of the options' types."""
    known, found = declared(), dict[str, Any]()
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"--set should be written name=value, but got {word!r}")
        if name not in known:
            raise unknown_option(name)
        found[name] = known[name].parse(name, text)
    return found


# Recipes -----------------------------------------------------------------------------------------------------------

OFFICIAL: dict[str, Any] = {
    "evict_from": "largest_class",
    "standardise_scores": True,
    "alpha_loss": "mixed",
    "relabel_set": "high_uncertainty",
    "relabel_weight": "unsorted_loss",
    "consistency_distance": "logit_mse",
    "loss_weights": "batch_share",
    "smallest_set": 2,
    "set_batches": "clean_full",
    "mixture_scale": True,
    "mixture_iterations": 10,
    "mixture_tolerance": 1e-2,
    "mixture_floor": 5e-4,
    "warmup_epochs": 10,
    "online_lr": 0.001,
    "replay": "after_first_consolidation",
    "online_cutmix": 0.5,
    "online_batchnorm": "frozen_when_full",
    "epochs": 255,
    "schedule": "warm_restarts",
    "head": "linear_batchnorm",
    "block_relu": "before_add",
    "batchnorm_epsilon": 1e-6,
}

# Chosen on validation images (experiments/). The released program learns almost nothing from the stream: its online
# rate is low and BatchNorm freezes early. The default learns online, lets a snapshot predict because a network that
# learns online also forgets, and counts the loss on arrival because trained-on samples always look clean.
PURIDIVER: dict[str, Any] = {
    **OFFICIAL,
    "online_lr": 0.01,
    "online_batchnorm": "train",
    "online_steps": 4,
    "online_prediction": "consolidated",
    "arrival_weight": 0.5,
    "ntd_views": 2,
}

RECIPES: dict[str, dict[str, Any]] = {"official": OFFICIAL, "paper": {}, "puridiver": PURIDIVER}
DEFAULT, PUBLISHED = "puridiver", "official"
DESCRIPTIONS = {
    "official": "what the paper's released program does, oddities included",
    "paper": "the equations as printed, with the plainest reading where the paper is silent",
    "puridiver": "the default: official, but it learns more from the stream, scores labels by their loss on arrival "
    "too, and predicts with the snapshot of the last consolidation",
}

# AutoAugment leaves too little of tiny images. Their streams are short and need larger steps and fewer epochs.
TINY_IMAGE = 24
SUITS_TINY_IMAGES: dict[str, Any] = {
    "strong": "none", "crop_padding": 1, "online_lr": 0.01, "epochs": 31, "spr_budget": 0.005, "spr_lr": 3e-3,
    "spr_crop": 0.5,
}  # fmt: skip


def recipe(name: str, **overrides: Any) -> Options:
    """A named recipe with any options replaced: `recipe("official", relabel_set="low_uncertainty")`."""
    if name not in RECIPES:
        raise ValueError(f"recipe should be one of {', '.join(sorted(RECIPES))}, but got {name!r}")
    return Options(**{**RECIPES[name], **overrides})


def suited(options: Options, wishes: Mapping[str, Any]) -> Options:
    """The options with values that suit some data; a value that switches something off stays (0 epochs stay 0)."""
    known = declared()
    return options.replace(**{n: v for n, v in wishes.items() if n in known and options[n] != known[n].off})


def resolve(
    base: str | Options,
    image_shape: tuple[int, int, int],
    data_defaults: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    others: Sequence[str] = (),
) -> Options:
    """The recipe, then what suits the image size, then what suits the data, then the user's overrides.

    Options given whole are not suited to size or data. `others` are names that an unknown override may have meant.
    """
    overrides = overrides or {}
    for name in overrides:
        if name not in declared():
            raise unknown_option(name, others)
    if isinstance(base, Options):
        return base.replace(**overrides)
    options = recipe(base)
    if max(image_shape[:2]) < TINY_IMAGE:
        options = suited(options, SUITS_TINY_IMAGES)
    return suited(options, data_defaults or {}).replace(**overrides)
