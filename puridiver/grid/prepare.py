"""What several cells of a grid need and only one has to make: made once, before they start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from puridiver.grid.plan import Planned, Sources
from puridiver.nets import NETWORKS
from puridiver.options import class_options
from puridiver.runs.config import resolve_diversity, resolve_network, resolve_options
from puridiver.runs.experiment import diversity_features

logger = logging.getLogger(__name__)


def prepare_diversity(waiting: Sequence[Planned], sources: Sources, tell: Callable[[str], None]) -> int:
    """Train the joint networks that the cells measure diversity with, unless cached; how many different ones."""
    seen = set()
    for planned in waiting:
        config = planned.cell.config
        source = sources.of(config)
        # Data without true labels have no diversity: the cell says so itself.
        if not resolve_diversity(config, source) or source.train.true is not None:
            continue
        options, network = resolve_options(config, source), resolve_network(config, source)
        own = tuple((name, options[name]) for name in class_options(NETWORKS[network]))
        key = (source.fingerprint, network, own, options.crop_padding, options.flip, config.device, config.data_root)
        if key not in seen:
            seen.add(key)
            try:
                diversity_features(config, source, tell)
            except Exception as error:  # each cell will meet it and tell it; others may not need it
                logger.warning("the joint network for diversity could not be made: %s", error)
    return len(seen)
