"""The kernel of evictions keeps whom torch's operations keep: on a GPU, and (see test_interpreter) on a CPU."""

from __future__ import annotations

import pytest
import torch

from puridiver import equations
from puridiver.memory.puridiver import Eviction, fused_eviction_works

CLASSES = 5


def pool_of(size: int, arriving: int, seed: int, device: str) -> tuple[Eviction, Eviction, torch.Tensor]:
    """Two evictions of one random pool that has admitted its old samples, and the tie-breakers of those arriving."""
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (size,), generator=random)
    features, w = torch.rand(size, 8, generator=random), torch.randn(CLASSES, 8, generator=random)
    loss, checked = torch.rand(size, generator=random) ** 3, torch.rand(size, generator=random) < 0.1
    parts = [part.to(device) for part in (loss, equations.relevant_directions(features, y, w), y)]
    alpha = torch.tensor([0.0, 0.4, 1.0][seed % 3], device=device)
    both = [Eviction(*parts, CLASSES, alpha, seed % 2 == 0, checked.to(device)) for _ in range(2)]
    for eviction in both:
        eviction.admit(size - arriving)
    return both[0], both[1], torch.rand(arriving, CLASSES, generator=random).to(device)


def compare_all(device: str) -> int:
    """Compares the kernel with torch's operations, with memories that are full, not yet, and full on the way."""
    # (Three or more of a class stay: the last two are as similar to each other, and rounding would choose.)
    cases = [(48, 16, 32), (48, 16, 40), (48, 16, 48), (17, 1, 16), (40, 40, 20)]
    if device == "cuda":
        cases += [(532, 32, 500), (2032, 32, 2000), (4096, 16, 4080)]
    for seed in range(6):
        for size, arriving, capacity in cases:
            slow, fast, ties = pool_of(size, arriving, seed, device)
            slow.run(ties, capacity, from_largest=True)
            fast.run_fused(ties, capacity)
            assert int(fast.alive.sum()) == min(size, capacity)
            assert torch.equal(fast.alive, slow.alive), (seed, size, arriving, capacity)
    return 6 * len(cases)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_kernel_keeps_whom_torchs_operations_keep() -> None:
    assert fused_eviction_works(torch.device("cuda", torch.cuda.current_device()))
    assert compare_all("cuda") > 0
