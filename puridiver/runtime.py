"""Where and how tensors are computed: device, memory format, threads. Decided here and nowhere else."""

from __future__ import annotations

import platform
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Runtime:
    """The device of a run. One code path serves CPU and GPU; only tensors' places differ."""

    device: torch.device

    def place(self, network: nn.Module) -> nn.Module:
        # channels_last is torch's faster layout for convolutions on CPUs and tensor cores alike.
        return network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def images(self, images: Tensor) -> Tensor:
        return images.to(self.device, non_blocking=True)


def choose_runtime(device: str = "auto") -> Runtime:
    """`auto` takes the first CUDA GPU if there is one, else the CPU."""
    if device == "auto":
        return Runtime(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device should be auto, cpu, cuda or cuda:N, but got {device!r}") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {device!r} was asked for, but torch {torch.__version__} sees no CUDA GPU; use cpu")
    return Runtime(chosen)


def describe_device(device: torch.device) -> str:
    """A name for result records: the GPU's product name, or the CPU with its thread count."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads"
