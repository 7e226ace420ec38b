"""Train a small network on CIFAR-100, to be frozen on other streams, and write what it makes of them as vectors.

python make_backbone.py train CIFAR OUT.safetensors [--epochs 4]    CIFAR-100 in its binary layout; colour and grey
python make_backbone.py embed OUT.safetensors FOLDER STREAM.npz...  the same streams with features for images
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

from puridiver import Backbone
from puridiver.augment.views import crop_flip_view, to_float
from puridiver.data import load

WIDTHS, BATCH, RATE = (32, 64, 128, 256), 64, 0.1


def network() -> nn.Sequential:
    """Four convolutions, each halving the resolution: features (N, 256, H / 16, W / 16)."""
    layers, previous = [], 3
    for width in WIDTHS:
        layers += [nn.Conv2d(previous, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
        previous = width
    return nn.Sequential(*layers)


def backbone(file: Path) -> Backbone:
    """The trained network as a learner takes it; images of 8 px are shown at 32."""
    module = network()
    module.load_state_dict(load_file(file))
    return Backbone(module, (0.5,) * 3, (0.25,) * 3, size=32)


def train(cifar: Path, out: Path, epochs: int) -> None:
    """Classify CIFAR-100's 100 classes, half of the images as grey ones. Keeps all but the classifier."""
    torch.manual_seed(0)
    draw, (data, labels) = torch.Generator().manual_seed(0), _cifar100(cifar)
    body, head = network(), nn.Linear(WIDTHS[-1], 100)
    parameters, steps = [*body.parameters(), *head.parameters()], epochs * (len(data) // BATCH)
    optimiser = torch.optim.SGD(parameters, lr=RATE, momentum=0.9, nesterov=True, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    begun = time.process_time()
    for epoch in range(epochs):
        right = 0
        for rows in torch.randperm(len(data), generator=draw)[: len(data) // BATCH * BATCH].view(-1, BATCH):
            images = to_float(crop_flip_view(data[rows], 4, True, draw))
            grey = torch.rand(BATCH, 1, 1, 1, generator=draw) < 0.5
            images = torch.where(grey, images.mean(dim=1, keepdim=True), images)
            logits = head(body(images).mean(dim=(2, 3)))
            optimiser.zero_grad()
            F.cross_entropy(logits, labels[rows]).backward()
            optimiser.step()
            schedule.step()
            right += int((logits.argmax(dim=1) == labels[rows]).sum())
        share, seconds = right / len(data), time.process_time() - begun
        sys.stdout.write(f"epoch {epoch + 1}: {share:.1%} of the train images right, {seconds:.0f} CPU s\n")
        sys.stdout.flush()
    save_file(body.state_dict(), out)


def _cifar100(root: Path) -> tuple[torch.Tensor, torch.Tensor]:
    part = load("cifar100", root).train
    return part.images.permute(0, 3, 1, 2).contiguous(), part.labels


def embed(file: Path, folder: Path, streams: list[Path]) -> None:
    """Write each stream with features in the place of its images."""
    frozen = backbone(file)
    folder.mkdir(parents=True, exist_ok=True)
    for stream in streams:
        arrays = dict(np.load(stream))
        begun = time.process_time()
        for key in ("train_images", "test_images"):
            images = torch.from_numpy(arrays[key]).permute(0, 3, 1, 2).contiguous()
            arrays[key] = frozen.features(images).numpy()
        n = len(arrays["train_images"]) + len(arrays["test_images"])
        np.savez_compressed(folder / stream.name, **arrays)
        sys.stdout.write(f"{stream.name}: {1000 * (time.process_time() - begun) / n:.2f} ms an image\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    training, embedding = actions.add_parser("train"), actions.add_parser("embed")
    training.add_argument("cifar", type=Path)
    training.add_argument("out", type=Path)
    training.add_argument("--epochs", type=int, default=4)
    embedding.add_argument("file", type=Path)
    embedding.add_argument("folder", type=Path)
    embedding.add_argument("streams", type=Path, nargs="+")
    asked = parser.parse_args()
    if asked.action == "train":
        train(asked.cifar, asked.out, asked.epochs)
    else:
        embed(asked.file, asked.folder, asked.streams)
