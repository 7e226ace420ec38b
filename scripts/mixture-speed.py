"""How long a captured fit of the mixture takes on a GPU, by the kernel and by torch's operations.

python scripts/mixture-speed.py
"""

from __future__ import annotations

import sys
import time

import torch

from puridiver import mixture
from puridiver.mixture import MixtureSettings, fit_mixture
from puridiver.runtime.device import Runtime
from puridiver.runtime.plans import Captured

SETTINGS = {
    "official": MixtureSettings(scale=True, max_iterations=10, tolerance=1e-2, covariance_floor=5e-4),
    "paper": MixtureSettings(),
}
COUNT, REPEATS = 500, 200


def milliseconds(values: torch.Tensor, settings: MixtureSettings, most_fused: int) -> float:
    """One fit, on average over many replays of its graph."""
    mixture.MOST_FUSED = most_fused
    runtime = Runtime(torch.device("cuda"), "float32", graphs=True)
    fit = Captured(runtime, lambda x: fit_mixture(x, settings=settings).low_posterior)
    for _ in range(5):
        fit(values)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(REPEATS):
        fit(values)
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start) / REPEATS


def main() -> None:
    if not torch.cuda.is_available():
        sys.exit("needs a CUDA device")
    # Losses as of a memory with some wrong labels: most are small, some large.
    values = torch.rand(COUNT, generator=torch.Generator().manual_seed(0)).pow(4).mul(5).cuda()
    for name, settings in SETTINGS.items():
        kernel, operations = (milliseconds(values, settings, most) for most in (COUNT, 0))
        print(f"{name}: {kernel:.3f} ms by the kernel, {operations:.3f} by torch's operations ({COUNT} values)")


if __name__ == "__main__":
    main()
