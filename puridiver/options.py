"""Every option of the method in one flat dataclass.

The number in an option's help, "[row n]", is the row of docs/FIDELITY.md that tells where the paper and its released
program differ.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from puridiver.option import option_field as _option
from puridiver.own_options import is_own_option, known, meant_by


@dataclass(frozen=True)
class Options:
    """Settings of sampler, trainer, augmentation and network. The defaults are the recipe `paper`."""

    # What the memory keeps
    evict_from: str = _option(
        "memory", "[row 1] drop the worst of the whole memory or of the largest class", ("memory", "largest_class")
    )
    standardise_scores: bool = _option(False, "[row 2] z-score loss and similarity within the class")
    alpha: float = _option(-1.0, "Eq. 3's balance: a static value in [0, 1], or -1 for the adaptive one", low=-1)
    alpha_loss: str = _option(
        "stream", "[row 3] Eq. 3's loss: of the stream samples, or of the mixed training batch", ("stream", "mixed")
    )
    arrival_weight: float = _option(
        0.0,
        "PuriDivER: weight of the loss that a sample had on arrival, once its batch had been learnt from online and "
        "before any memory training, beside today's in Eq. 2 (0: today's alone)",
        low=0, high=100, later=True,
    )  # fmt: skip
    checked_share: float = _option(
        0.5,
        "PuriDivER: of each class's samples this share at most, those that came last, is kept before all others "
        "because a person has checked their labels (1: all that were checked)",
        low=0, high=1, later=True,
    )  # fmt: skip
    ntd_views: int = _option(
        8,
        "augmented copies over which an arriving sample's loss is averaged (NTD; PuriDivER where that has a weight)",
        low=1,
    )

    # How the memory is split and used
    relabel: bool = _option(True, "re-label part of the noisy set (Eq. 8); off: consistency on all of it")
    consistency: bool = _option(True, "consistency loss on part of the noisy set (Eq. 10); off: re-label all of it")
    relabel_set: str = _option(
        "low_uncertainty",
        "[row 4] which part of the noisy set is re-labelled",
        ("low_uncertainty", "high_uncertainty"),
    )
    relabel_weight: str = _option(
        "uncertainty",
        "[row 5] Eq. 8's weight of the prediction: the uncertainty mixture's posterior, or one minus an arbitrary "
        "component of the loss mixture, [row 28] either as often, or the clean one as often as there are clean samples",
        ("uncertainty", "unsorted_loss", "unsorted_loss_by_share"),
    )
    relabel_view: str = _option(
        "before_epoch",
        "[row 22] Eq. 8's prediction: of the images as they are before each epoch, or of weak views in the step itself",
        ("before_epoch", "in_step"),
        later=True,
    )
    consistency_distance: str = _option("softmax_l2", "[row 6] Eq. 10's distance", ("softmax_l2", "logit_mse"))
    loss_weights: str = _option(
        "equation", "[row 7] Eq. 11 as printed, or each loss by its share of the batch", ("equation", "batch_share")
    )
    eta: float = _option(1.0, "weight of the consistency loss in Eq. 11", low=0)
    smallest_set: int = _option(
        0, "[row 8] with this many samples or fewer in R or U the epoch is plain cross-entropy (0: never)", low=0
    )
    set_batches: str = _option(
        "proportional",
        "[row 9] a batch of `batch_size` drawn from C, R and U in proportion, or `batch_size` from C plus R and U "
        "scaled so that an epoch passes each once, [row 29] rounded up, or by their share of C, rounded down",
        ("proportional", "clean_full", "clean_full_by_share"),
    )
    cutmix_sets: str = _option(
        "labelled",
        "[row 21] CutMix where there are C, R and U: on C and R, or on C alone",
        ("labelled", "clean"),
        later=True,
    )
    mixture_scale: bool = _option(False, "[row 10] min-max scale losses before the mixture is fitted")
    mixture_iterations: int = _option(100, "[row 10] EM iterations at most", low=1)
    mixture_tolerance: float = _option(1e-3, "[row 10] EM stops below this change of the log-likelihood", low=0)
    mixture_floor: float = _option(1e-6, "[row 10] added to the mixture's variances", low=0)
    warmup_epochs: int = _option(0, "[row 11] PuriDivER: plain epochs of each consolidation before the split", low=0)

    # Online phase
    batch_size: int = _option(16, "samples of a training batch", low=2)
    online_lr: float = _option(0.05, "[row 12] learning rate on the stream", low=0)
    online_steps: int = _option(1, "gradient steps on each stream batch", low=1)
    replay: str = _option(
        "never",
        "[row 12] when memory samples join stream batches",
        ("never", "after_first_consolidation", "always"),
        off="never",
    )
    online_cutmix: float = _option(0.0, "[row 12] probability of CutMix on a stream batch", low=0, high=1)
    online_batchnorm: str = _option(
        "train",
        "[row 13] keep training BatchNorm online, or freeze it once the memory is full (samplers that look "
        "through the network only)",
        ("train", "frozen_when_full"),
        off="train",
    )

    online_average: float = _option(
        0.0,
        "decay of a running average of the weights, such as 0.99: online the sampler and predictions look through "
        "it, and memory training starts from it (0: none)",
        low=0,
        high=0.99999,
        later=True,
    )
    online_prediction: str = _option(
        "network",
        "what predicts while the stream goes on: the network as it is, as the last memory training left it, or the "
        "mean of both; of classes that came since, or had less than half a fair share of that memory, always the "
        "network as it is",
        ("network", "consolidated", "both"),
        off="network",
        later=True,
    )
    online_crop_flip: bool = _option(
        False, "crop and mirror the samples of a stream batch at random, anew for each gradient step", later=True
    )

    # Memory training
    epochs: int = _option(256, "[row 14] epochs of one consolidation", low=1)
    consolidations: int = _option(
        1, "memory trainings of a run in each task, `epochs` each, the last at its end", low=1, later=True
    )
    lr: float = _option(0.05, "learning rate of memory training", low=0)
    schedule: str = _option(
        "cosine", "[row 14] one cosine to 0, or warm restarts with doubling periods", ("cosine", "warm_restarts")
    )
    last_batch: str = _option(
        "left_out",
        "[row 24] the samples of a memory epoch that fill no whole batch: left out until the next epoch, or a smaller "
        "batch of their own at the end",
        ("left_out", "trained"),
        later=True,
    )
    momentum: float = _option(0.9, "SGD (Nesterov) momentum", low=0, high=0.9999)
    weight_decay: float = _option(1e-4, "weight decay", low=0)
    cutmix: float = _option(0.5, "probability of CutMix on a memory batch", low=0, high=1)
    crop_padding: int = _option(4, "pixels of padding before the random crop", low=0)
    flip: bool = _option(True, "mirror images at random")
    strong: str = _option(
        "autoaugment",
        "[row 26] strong augmentation s(.): AutoAugment, with black coming in from outside and rotations both ways, or "
        "with grey and rotations one way",
        ("autoaugment", "autoaugment_grey", "none"),
        off="none",
    )
    weak: str = _option(
        "flip",
        "[row 25] PuriDivER's weak augmentation w(.): mirrored, or cropped and mirrored (without `flip` a crop anyway)",
        ("flip", "crop_flip"),
        later=True,
    )

    # Baselines
    baseline_warmup: int = _option(10, "SELFIE, DivideMix: plain epochs of each consolidation at first", low=0)
    selfie_history: int = _option(5, "SELFIE: looks that must agree before a sample is re-labelled", low=2)
    forget_epochs: int = _option(10, "Co-teaching: epochs until the kept share has fallen to 1 - noise rate", low=1)
    sharpen: float = _option(0.5, "DivideMix: temperature of sharpening", low=1e-3)
    mixup_alpha: float = _option(4.0, "DivideMix: MixUp's alpha", low=1e-3)
    unlabelled_weight: float = _option(25.0, "DivideMix: final weight of the unlabelled loss", low=0)
    unlabelled_batches: str = _option(
        "equal",
        "[row 17] DivideMix: as many unlabelled samples in a batch as labelled ones, as its authors have it, or as "
        "many as their share of the memory gives",
        ("equal", "proportional"),
        later=True,
    )
    ramp_epochs: int = _option(16, "DivideMix: epochs over which that weight grows", low=1)

    # SPR
    spr_filter: bool = _option(True, "SPR's sampler: filter the delay buffer; off: all of it competes for the memory")
    spr_budget: float = _option(1.0, "SPR: share of its self-supervised epochs, 1 as published", low=0)
    spr_expert_epochs: int = _option(4000, "SPR: self-supervised epochs of the expert for each delay buffer", low=0)
    spr_base_epochs: int = _option(
        3000, "SPR: self-supervised epochs of the base for each delay buffer; 0: no Self-Replay", low=0
    )
    spr_lr: float = _option(3e-4, "SPR: learning rate of self-supervised training (Adam)", low=0)
    spr_batch: int = _option(500, "SPR: images of a self-supervised batch", low=2)
    spr_temperature: float = _option(0.5, "SPR: temperature of the self-supervised loss", low=1e-3)
    spr_crop: float = _option(0.2, "SPR: smallest share of an image that a view may show", low=0.01, high=1)
    spr_graphs: int = _option(5, "SPR: random graphs over which the probability of a label is averaged", low=1)
    finetune_lr: float = _option(2e-3, "SPR: learning rate (Adam) of the copy that is trained on the memory", low=0)
    finetune_clip: float = _option(0.5, "SPR: largest entry of a gradient of that copy", low=1e-6)

    # Network
    head: str = _option(
        "linear", "[row 15] FC layer, or linear without bias and BatchNorm on logits", ("linear", "linear_batchnorm")
    )
    block_relu: str = _option(
        "after_add", "[row 15] place of the residual block's last ReLU", ("after_add", "before_add")
    )
    batchnorm_epsilon: float = _option(1e-5, "[row 15] epsilon of BatchNorm", low=0)
    shortcut_relu: bool = _option(False, "[row 27] ResNets: a ReLU after the convolution of a shortcut", later=True)

    def __post_init__(self) -> None:
        for option in dataclasses.fields(Options):
            value = option.metadata["kind"].checked(option.name, getattr(self, option.name))
            object.__setattr__(self, option.name, value)
        if self.alpha != -1 and not 0 <= self.alpha <= 1:
            raise ValueError(f"option alpha should be in [0, 1], or -1 (adaptive), but got {self.alpha}")

    @property
    def own(self) -> dict[str, Any]:
        """What was asked of options that methods declare themselves, by full names such as `gce.q`."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        return {option.name: getattr(self, option.name) for option in dataclasses.fields(Options)} | self.own

    def hashed(self) -> dict[str, Any]:
        """The options that enter hashes of settings."""
        return without_later(self.to_dict())


@dataclass(frozen=True)
class WithOwn(Options):
    """The options of a recipe together with methods' own, which no recipe has: `with_own` makes it."""

    asked: tuple[tuple[str, Any], ...] = ()  # sorted pairs of full name and value

    @property
    def own(self) -> dict[str, Any]:
        return dict(self.asked)


def with_own(options: Options, own: dict[str, Any]) -> Options:
    """The options with exactly these of methods' own."""
    plain = {option.name: getattr(options, option.name) for option in dataclasses.fields(Options)}
    return WithOwn(**plain, asked=tuple(sorted(own.items()))) if own else Options(**plain)


def options_of(saved: dict[str, Any]) -> Options:
    """The options whose `to_dict` this is."""
    own = {name: value for name, value in saved.items() if is_own_option(name)}
    return with_own(Options(**{name: value for name, value in saved.items() if name not in own}), own)


def without_later(options: dict[str, Any]) -> dict[str, Any]:
    """Options by name without those that came later and are at their default: as if they had never come."""
    later = {option.name: option.default for option in dataclasses.fields(Options) if option.metadata["later"]}
    return {name: value for name, value in options.items() if name not in later or value != later[name]}


def unknown_option(name: str, others: Sequence[str] = ()) -> ValueError:
    """An error that offers the options, or `others` that could be meant, of nearly this name; all if there is none."""
    names = sorted(option.name for option in dataclasses.fields(Options))
    near = meant_by(name) or difflib.get_close_matches(name, [*names, *others])
    if near:
        return ValueError(
            f"there is no option {name!r}; did you mean {' or '.join(near)}? (`puridiver methods --options` lists all)"
        )
    return ValueError(f"there is no option {name!r}; the options are {', '.join(names)}")


def parse_option(name: str, text: str) -> Any:
    """The value of `--set name=text` in the option's type."""
    if is_own_option(name):
        return known(name).parsed(name, text)
    options = {option.name: option for option in dataclasses.fields(Options)}
    if name not in options:
        raise unknown_option(name)
    if name == "alpha" and text == "adaptive":
        return -1.0
    return options[name].metadata["kind"].parsed(name, text)
