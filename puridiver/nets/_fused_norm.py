"""Triton kernels for BatchNorm with the ReLU and the residual addition that follow it, forward and backward.

At batch 16 on an H200, torch's channels-last BatchNorm took a third of a training step, in four kernels a layer. Here a
layer takes two in each direction. Only `puridiver.nets.base` imports this module, since it needs Triton.

Tensors are (rows, channels) in memory. Partial sums are added in a fixed order, so that every run gives the same.
"""
# mypy: ignore-errors
# (Triton compiles kernels from their source: their arguments have no Python types)

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

RELU_ADD, ADD_RELU = 2, 3  # a MODE is an index of `puridiver.nets.base.FOLLOWERS`
# The best of twelve settings on an H200 (batch 16 to 48, layers of a ResNet-18); MOST_CHANNELS are of one program.
MOST_PARTS, BLOCK_ROWS, MOST_CHANNELS = 128, 64, 32


@triton.jit
def _sums_kernel(x, partial, n_rows, n_channels, part_rows, BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Sums and sums of squares of each channel over one part of the rows, about the first row as a pivot."""
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = channel < n_channels
    pivot = tl.load(x + channel, mask=exists, other=0).to(tl.float32)
    start = tl.program_id(0) * part_rows
    end = tl.minimum(start + part_rows, n_rows)
    total = tl.zeros((BLOCK_ROWS, BLOCK), tl.float32)
    squares = tl.zeros((BLOCK_ROWS, BLOCK), tl.float32)
    while start < end:  # Triton's interpreter, which runs the CPU tests, does not support such a range
        row = start + tl.arange(0, BLOCK_ROWS)
        inside = (row < end)[:, None] & exists[None, :]
        value = tl.load(x + row[:, None] * n_channels + channel[None, :], mask=inside, other=0).to(tl.float32)
        value = tl.where(inside, value - pivot[None, :], 0)
        total += value
        squares += value * value
        start += BLOCK_ROWS
    place = partial + tl.program_id(0) * 2 * n_channels + channel
    tl.store(place, tl.sum(total, 0), mask=exists)
    tl.store(place + n_channels, tl.sum(squares, 0), mask=exists)


@triton.jit
def _combine(partial, channel, exists, n_channels, parts, MOST_PARTS: tl.constexpr):
    """Add up both partial sums over the parts."""
    part = tl.arange(0, MOST_PARTS)
    place = partial + part[:, None] * 2 * n_channels + channel[None, :]
    known = (part < parts)[:, None] & exists[None, :]
    return tl.sum(tl.load(place, mask=known, other=0), 0), tl.sum(tl.load(place + n_channels, mask=known, other=0), 0)


@triton.jit
def _forward_kernel(
    x, residual, out, partial, parts, weight, bias, running_mean, running_var, mean_out, scale_out,
    n_rows, n_channels, epsilon, momentum,
    BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr, MOST_PARTS: tl.constexpr, BY_BATCH: tl.constexpr,
    MODE: tl.constexpr,
):  # fmt: skip
    """Normalise, scale, shift, then ReLU and addition; the first program of a channel block stores the statistics."""
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = channel < n_channels
    is_first = tl.program_id(0) == 0
    if BY_BATCH:
        total, squares = _combine(partial, channel, exists, n_channels, parts, MOST_PARTS)
        shift = total / n_rows
        variance = tl.maximum(squares / n_rows - shift * shift, 0)
        mean = tl.load(x + channel, mask=exists, other=0).to(tl.float32) + shift
        if is_first:
            unbiased = variance * (n_rows / tl.maximum(n_rows - 1, 1).to(tl.float32))
            old_mean = tl.load(running_mean + channel, mask=exists, other=0)
            old_var = tl.load(running_var + channel, mask=exists, other=0)
            tl.store(running_mean + channel, old_mean + momentum * (mean - old_mean), mask=exists)
            tl.store(running_var + channel, old_var + momentum * (unbiased - old_var), mask=exists)
    else:
        mean = tl.load(running_mean + channel, mask=exists, other=0)
        variance = tl.load(running_var + channel, mask=exists, other=1)
    scale = 1 / tl.sqrt(variance + epsilon)
    if is_first:
        tl.store(mean_out + channel, mean, mask=exists)
        tl.store(scale_out + channel, scale, mask=exists)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    inside = (row < n_rows)[:, None] & exists[None, :]
    place = row[:, None] * n_channels + channel[None, :]
    value = (tl.load(x + place, mask=inside, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    gain = tl.load(weight + channel, mask=exists, other=0)
    value = value * gain[None, :] + tl.load(bias + channel, mask=exists, other=0)[None, :]
    if MODE == 1 or MODE == 2:
        value = tl.maximum(value, 0)
    if MODE >= 2:
        value += tl.load(residual + place, mask=inside, other=0).to(tl.float32)
    if MODE == 3:
        value = tl.maximum(value, 0)
    tl.store(out + place, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _statistics(mean_in, scale_in, weight, bias, channel, exists):
    """Mean, scale, gain and offset of some channels."""
    mean, scale = tl.load(mean_in + channel, mask=exists, other=0), tl.load(scale_in + channel, mask=exists, other=0)
    return mean, scale, tl.load(weight + channel, mask=exists, other=0), tl.load(bias + channel, mask=exists, other=0)


@triton.jit
def _gradient(gradient_out, x, out, mean, scale, gain, offset, place, inside, MODE: tl.constexpr):
    """The gradient, 0 where ReLU was off, and the normalised values."""
    gradient = tl.load(gradient_out + place, mask=inside, other=0).to(tl.float32)
    normal = (tl.load(x + place, mask=inside, other=0).to(tl.float32) - mean[None, :]) * scale[None, :]
    if MODE == 1 or MODE == 2:
        gradient = tl.where(normal * gain[None, :] + offset[None, :] > 0, gradient, 0)
    if MODE == 3:
        gradient = tl.where(tl.load(out + place, mask=inside, other=0) > 0, gradient, 0)
    return gradient, normal


@triton.jit
def _gradient_sums_kernel(
    gradient_out, x, out, mean_in, scale_in, weight, bias, partial, n_rows, n_channels, part_rows,
    BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr, MODE: tl.constexpr,
):  # fmt: skip
    """Sums of the gradient, and of gradient times normalised value, of each channel over one part of the rows."""
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = channel < n_channels
    mean, scale, gain, offset = _statistics(mean_in, scale_in, weight, bias, channel, exists)
    start = tl.program_id(0) * part_rows
    end = tl.minimum(start + part_rows, n_rows)
    total = tl.zeros((BLOCK_ROWS, BLOCK), tl.float32)
    with_value = tl.zeros((BLOCK_ROWS, BLOCK), tl.float32)
    while start < end:
        row = start + tl.arange(0, BLOCK_ROWS)
        inside = (row < end)[:, None] & exists[None, :]
        place = row[:, None] * n_channels + channel[None, :]
        gradient, normal = _gradient(gradient_out, x, out, mean, scale, gain, offset, place, inside, MODE)
        total += gradient
        with_value += gradient * normal
        start += BLOCK_ROWS
    place = partial + tl.program_id(0) * 2 * n_channels + channel
    tl.store(place, tl.sum(total, 0), mask=exists)
    tl.store(place + n_channels, tl.sum(with_value, 0), mask=exists)


@triton.jit
def _backward_kernel(
    gradient_out, x, out, mean_in, scale_in, weight, bias, partial, parts,
    gradient_x, gradient_residual, gradient_weight, gradient_bias, n_rows, n_channels,
    BLOCK_ROWS: tl.constexpr, BLOCK: tl.constexpr, MOST_PARTS: tl.constexpr, BY_BATCH: tl.constexpr,
    MODE: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = channel < n_channels
    total, with_value = _combine(partial, channel, exists, n_channels, parts, MOST_PARTS)
    if tl.program_id(0) == 0:
        tl.store(gradient_bias + channel, total, mask=exists)
        tl.store(gradient_weight + channel, with_value, mask=exists)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    inside = (row < n_rows)[:, None] & exists[None, :]
    place = row[:, None] * n_channels + channel[None, :]
    mean, scale, gain, offset = _statistics(mean_in, scale_in, weight, bias, channel, exists)
    gradient, normal = _gradient(gradient_out, x, out, mean, scale, gain, offset, place, inside, MODE)
    if MODE == 3:
        tl.store(gradient_residual + place, gradient.to(gradient_residual.dtype.element_ty), mask=inside)
    if BY_BATCH:
        gradient = gradient - total[None, :] / n_rows - normal * (with_value[None, :] / n_rows)
    result = gradient * (gain * scale)[None, :]
    tl.store(gradient_x + place, result.to(gradient_x.dtype.element_ty), mask=inside)


class _Grid:
    """The division of a tensor among programs."""

    def __init__(self, x: Tensor) -> None:
        self.channels = x.shape[1]
        self.rows = x.numel() // self.channels
        self.block = min(MOST_CHANNELS, triton.next_power_of_2(self.channels))
        column_blocks = triton.cdiv(self.channels, self.block)
        row_blocks = triton.cdiv(self.rows, BLOCK_ROWS)
        self.part_rows = triton.cdiv(row_blocks, min(MOST_PARTS, row_blocks)) * BLOCK_ROWS
        self.parts = triton.cdiv(self.rows, self.part_rows)
        self.sums = (self.parts, column_blocks)
        self.elements = (row_blocks, column_blocks)
        self.partial = torch.empty(self.parts, 2, self.channels, device=x.device)


class FusedNorm(torch.autograd.Function):
    """BatchNorm of a channels-last x by batch or running statistics, then ReLU and addition by `mode`."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, residual: Tensor | None, weight: Tensor, bias: Tensor, running_mean: Tensor,
        running_var: Tensor, by_batch: bool, momentum: float, epsilon: float, mode: int,
    ) -> Tensor:  # fmt: skip
        x = x.contiguous(memory_format=torch.channels_last)
        if residual is not None:
            residual = residual.contiguous(memory_format=torch.channels_last)
        out, grid = torch.empty_like(x), _Grid(x)
        mean, scale = torch.empty_like(running_mean), torch.empty_like(running_var)
        if by_batch:
            _sums_kernel[grid.sums](
                x, grid.partial, grid.rows, grid.channels, grid.part_rows, BLOCK_ROWS=BLOCK_ROWS, BLOCK=grid.block
            )
        _forward_kernel[grid.elements](
            x, x if residual is None else residual, out, grid.partial, grid.parts, weight, bias,
            running_mean, running_var, mean, scale, grid.rows, grid.channels, epsilon, momentum,
            BLOCK_ROWS=BLOCK_ROWS, BLOCK=grid.block, MOST_PARTS=MOST_PARTS, BY_BATCH=by_batch, MODE=mode,
        )  # fmt: skip
        ctx.by_batch, ctx.mode = by_batch, mode
        ctx.save_for_backward(x, out if mode == ADD_RELU else x, mean, scale, weight, bias)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, out, mean, scale, weight, bias = ctx.saved_tensors
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        grid = _Grid(x)
        _gradient_sums_kernel[grid.sums](
            gradient, x, out, mean, scale, weight, bias, grid.partial, grid.rows, grid.channels, grid.part_rows,
            BLOCK_ROWS=BLOCK_ROWS, BLOCK=grid.block, MODE=ctx.mode,
        )  # fmt: skip
        gradient_x, gradient_weight, gradient_bias = (torch.empty_like(t) for t in (x, weight, bias))
        passed = torch.empty_like(x) if ctx.mode == ADD_RELU else gradient
        _backward_kernel[grid.elements](
            gradient, x, out, mean, scale, weight, bias, grid.partial, grid.parts,
            gradient_x, passed, gradient_weight, gradient_bias, grid.rows, grid.channels,
            BLOCK_ROWS=BLOCK_ROWS, BLOCK=grid.block, MOST_PARTS=MOST_PARTS, BY_BATCH=ctx.by_batch, MODE=ctx.mode,
        )  # fmt: skip
        gradient_residual = passed if ctx.mode >= RELU_ADD else None
        return gradient_x, gradient_residual, gradient_weight, gradient_bias, None, None, None, None, None, None
