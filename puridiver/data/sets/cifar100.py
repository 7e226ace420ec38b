"""CIFAR-100 with its 100 fine labels."""

from __future__ import annotations

import numpy as np

from puridiver.data.base import Archive
from puridiver.data.sets.cifar10 import Cifar

CLASS_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""


class Cifar100(Cifar):
    """50,000 train and 10,000 test images."""

    name = "cifar100"
    title = "CIFAR-100, small photographs, fine labels"
    size = "50,000 + 10,000 images, 32x32 colour, 100 classes"
    defaults = {"network": "resnet32", "memory": 2000, "warmup_epochs": 30, "baseline_warmup": 30}  # noqa: RUF012
    fingerprint = "ba17dae4fe17ddf0aa0367dd6c6b9639bb12011937e6e9a6d57ee0998ba275e9"
    train_files = {"train.bin": 50_000}  # noqa: RUF012
    test_files = {"test.bin": 10_000}  # noqa: RUF012
    label_bytes = 2
    class_names = tuple(CLASS_NAMES.split())
    archive = Archive(
        url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        md5="03b5dce01913d631647c71ecec9e9cb8",
        size_bytes=168_513_733,
        folder="cifar-100-binary",
    )

    def noise_map(self, records: np.ndarray) -> dict[int, int]:
        """Each fine class to the next one, by id and cyclically, that shares its coarse class."""
        following: dict[int, int] = {}
        for coarse in np.unique(records[:, 0]):
            members = np.unique(records[records[:, 0] == coarse, 1]).tolist()
            following.update(zip(members, members[1:] + members[:1], strict=True))
        return dict(sorted(following.items()))
