"""Options of the method: what one option may be, those that exist, and a value for each of them.

Options that every method shares are declared here. A sampler, trainer or network declares its own in its class,
`own_options = {"gce_q": Option(0.7, "the power")}`. All names share one flat namespace, so `--set gce_q=0.5` sets it.
"[row n]" in a help text is the row of docs/fidelity.md on which the paper and its released program differ.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from puridiver.errors import meant

NAME = re.compile(r"[a-z][a-z0-9_]*")
LARGEST = 2**63 - 1  # of a number
KINDS: dict[type, tuple[Any, str]] = {
    bool: (bool, "true or false"), int: (Integral, "a whole number"), float: (Real, "a number"), str: (str, "a text"),
}  # fmt: skip
SWITCHES = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


@dataclass(frozen=True)
class Option:
    """A value that users may set: its default, which fixes its type, and what else is allowed."""

    default: Any  # bool, int, float or str
    help: str = ""
    choices: tuple[str, ...] | Callable[[], Iterable[str]] = ()  # the allowed words, or a function that returns them
    low: float = -LARGEST  # bounds of a number, included
    high: float = LARGEST

    @property
    def kind(self) -> type:
        """The type of the value."""
        return type(self.default)

    def allowed(self) -> tuple[str, ...]:
        """The allowed words; empty where any value of the type is allowed."""
        return tuple(self.choices()) if callable(self.choices) else self.choices

    def check(self, name: str, value: Any) -> Any:
        """Return the value in the option's type, or raise a ValueError that says what is allowed."""
        accepted, wanted = KINDS[self.kind]
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.kind is not bool):
            raise ValueError(f"{name} should be {wanted}, but got {value!r}")
        if self.kind in (int, float) and not self.low <= value <= self.high:
            bounds = {"at least": self.low, "at most": self.high}
            told = [f"{words} {at:g}" for words, at in bounds.items() if abs(at) < LARGEST or abs(value) > LARGEST]
            raise ValueError(f"{name} should be {' and '.join(told) or wanted}, but got {value}")
        if (words := self.allowed()) and value not in words:
            raise ValueError(f"{name} should be one of {', '.join(words)}, but got {value!r}{meant(value, words)}")
        return self.kind(value)  # Python's own, also of a number of NumPy

    def parse(self, name: str, text: str) -> Any:
        """Read the value of `--set name=text` in the option's type."""
        try:
            value = SWITCHES[text.lower()] if self.kind is bool else self.kind(text)
        except (KeyError, ValueError):
            raise ValueError(f"{name} should be {KINDS[self.kind][1]}, but got {text!r}") from None
        return self.check(name, value)


def _policies() -> Iterable[str]:
    return importlib.import_module("puridiver.augment").POLICIES


SHARED: dict[str, Option] = {
    # Online phase
    "batch_size": Option(16, "samples of a training batch", low=2),
    "stream_batch": Option(0, "samples that arrive together in a run (0: `batch_size`)", low=0),
    "online_lr": Option(0.05, "learning rate on the stream [row 12]", low=0),
    "online_steps": Option(1, "gradient steps on each stream batch", low=1),
    "replay": Option(
        "never", "when memory samples join stream batches [row 12]",
        ("never", "after_first_consolidation", "always"),
    ),
    "replay_size": Option(0, "memory samples that join a stream batch (0: as many as `batch_size`)", low=0),
    "replay_view": Option("strong", "augmentation of memory samples that join stream batches", ("strong", "none")),
    "online_targets": Option(
        "given", "what a stream batch teaches: its labels, or the classes that are likely given image and label",
        ("given", "verdict"),
    ),
    "online_cutmix": Option(0.0, "probability of CutMix on a stream batch [row 12]", low=0, high=1),
    "online_crop_flip": Option(False, "crop and mirror stream samples at random, anew for each gradient step"),
    "online_batchnorm": Option(
        "train", "train BatchNorm online, or freeze it once the memory is full; only for samplers that score with the "
        "network [row 13]", ("train", "frozen_when_full"),
    ),
    "online_average": Option(
        0.0, "decay of a moving average of the weights, such as 0.99; the sampler and predictions use it online and "
        "memory training starts from it (0: none)", low=0, high=0.99999,
    ),
    "online_prediction": Option(
        "network", "what predicts between consolidations: the live network, the snapshot of the last consolidation, "
        "the mean of both, or both weighed by how well each named the labels that arrived since; the live network "
        "always predicts classes that the snapshot saw too little of; with online_average, weighed weighs the moving "
        "average instead of the snapshot",
        ("network", "consolidated", "both", "weighed"),
    ),
    "snapshots": Option(
        1, "networks of the last learning-rate minima of a consolidation whose mean predicts; not if the live network "
        "does", low=1, high=100
    ),
    "alpha_loss": Option(
        "stream", "Eq. 3's loss: of the stream samples or of the mixed training batch [row 3]", ("stream", "mixed")
    ),
    # Memory training
    "epochs": Option(256, "epochs of one consolidation; 0: none [row 14]", low=0),
    "consolidations": Option(1, "consolidations of each task, `epochs` each, the last at the task's end", low=1),
    "lr": Option(0.05, "learning rate of memory training", low=0),
    "schedule": Option(
        "cosine", "one cosine to 0, or warm restarts with doubling periods [row 14]", ("cosine", "warm_restarts")
    ),
    "last_batch": Option(
        "left_out", "samples of a memory epoch that fill no whole batch: leave them out, or train on a smaller batch "
        "[row 24]", ("left_out", "trained"),
    ),
    "momentum": Option(0.9, "momentum of SGD (Nesterov)", low=0, high=0.9999),
    "weight_decay": Option(1e-4, "weight decay", low=0),
    "cutmix": Option(0.5, "probability of CutMix on a memory batch", low=0, high=1),
    "crop_padding": Option(4, "pixels of padding before the random crop", low=0),
    "flip": Option(True, "mirror images at random"),
    "vector_noise": Option(
        0.1, "for vectors: noise of the strong augmentation, in standard deviations of each number; `cutmix` and "
        "`online_cutmix` are probabilities of Mixup then", low=0,
    ),
    "strong": Option("autoaugment", "policy of the strong augmentation s(.) [row 26]", _policies),
    "weak": Option(
        "flip", "weak augmentation w(.): mirror, or crop and mirror; without `flip` a crop anyway [row 25]",
        ("flip", "crop_flip"),
    ),
    # Network
    "head": Option(
        "linear", "a linear layer, or one without bias and BatchNorm on the logits [row 15]",
        ("linear", "linear_batchnorm"),
    ),
    "block_relu": Option("after_add", "last ReLU of a residual block [row 15]", ("after_add", "before_add")),
    "batchnorm_epsilon": Option(1e-5, "epsilon of BatchNorm [row 15]", low=0),
    "shortcut_relu": Option(False, "ResNets: a ReLU after the convolution of a shortcut [row 27]"),
}  # fmt: skip

# The families whose classes declare options; importing one loads its folder.
FAMILIES = ("puridiver.memory", "puridiver.trainers", "puridiver.nets")

_methods: dict[str, dict[str, Option]] = {}  # the options of each method, such as "trainer gce"


def declare(method: str, kind: type) -> None:
    """Make the options of a method ("trainer gce") known, instead of those of an earlier definition."""
    options = class_options(kind)
    for name, option in options.items():
        if not isinstance(option, Option) or type(option.default) not in KINDS or not NAME.fullmatch(str(name)):
            raise ValueError(
                f'{method}: declare an option as "lower_case_name": Option(default, "help"), its default a bool, int, '
                f"float or str, but got {name!r}: {option!r}"
            )
        option.check(name, option.default)
        others = [other for other in owners(name) if other != method]
        if name in SHARED or any(_methods[other][name] != option for other in others):
            taken = " and ".join(others) or "every method"
            raise ValueError(f"{method}: the option name {name!r} is taken by {taken}: choose another")
    _methods[method] = options


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
        declare(f"{family} {name}", kind)


def declared() -> dict[str, Option]:
    """Every known option by name."""
    for family in FAMILIES:
        importlib.import_module(family)
    return {name: option for options in (SHARED, *_methods.values()) for name, option in options.items()}


def owners(name: str) -> list[str]:
    """The methods that declare an option, such as "trainer gce"; none for an option that all share."""
    return sorted(method for method, options in _methods.items() if name in options)


def check_known(names: Iterable[str], others: Sequence[str] = ()) -> None:
    """Raise a ValueError for a name that is no option; `others` are further names that the user may have meant."""
    known = declared()
    for name in names:
        if name not in known:
            hint = meant(name, [*sorted(known), *others]) or f"; the options are {', '.join(sorted(known))}"
            raise ValueError(f"there is no option {name!r}{hint} (`puridiver methods --options` lists all)")


class Options(Mapping[str, Any]):
    """An immutable value for every declared option: `options.lr`, `options["lr"]`, `options.replace(lr=0.1)`.

    Without changes the options are those of the recipe `paper`.

    Examples
    --------
    >>> Options(lr=0.1).changed()
    {'lr': 0.1}
    """

    def __init__(self, **changes: Any) -> None:
        check_known(changes)
        for name, option in declared().items():
            vars(self)[name] = option.check(name, changes[name]) if name in changes else option.default

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    if TYPE_CHECKING:  # else a plain attribute

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"options do not change: options.replace({name}=...) makes new ones")

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self))

    def __len__(self) -> int:
        return len(vars(self))

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self.changed().items())})"

    def changed(self) -> dict[str, Any]:
        """The values that differ from the declared defaults."""
        return {
            name: self[name] for name, option in declared().items() if self.get(name, option.default) != option.default
        }

    def replace(self, **changes: Any) -> Options:
        """New options with some values replaced."""
        return Options(**{**self.changed(), **changes})

    def of(self, methods: Iterable[str]) -> dict[str, Any]:
        """The values that reach these methods ("trainer gce"): shared options and those the methods declare."""
        own = {name for method in methods for name in _methods.get(method, ())}
        return {name: value for name, value in self.items() if name in own or not owners(name)}


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
    found = dict[str, Any]()
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals:
            raise ValueError(f"--set should be written name=value, but got {word!r}")
        check_known([name])
        found[name] = declared()[name].parse(name, text)
    return found
