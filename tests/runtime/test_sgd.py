"""SGD takes torch's own steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from puridiver.runtime.sgd import SGD


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("momentum", [0.9, 0.0])
@pytest.mark.parametrize("decay", [5e-4, 0.0])
def test_steps_are_those_of_torch(momentum: float, decay: float, dtype: torch.dtype) -> None:
    rate, slower = torch.tensor(0.1), torch.tensor(0.01)
    ours, theirs = (
        nn.Sequential(nn.Conv2d(3, 5, 3), nn.Flatten(), nn.Linear(20, 7)).to(dtype, memory_format=torch.channels_last)
        for _ in range(2)
    )
    theirs.load_state_dict(ours.state_dict())
    theirs.unused, ours.unused = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))  # gets no gradient

    def groups(network: nn.Sequential) -> list[dict[str, object]]:
        return [{"params": network[:2].parameters(), "lr": rate},
                {"params": [*network[2:].parameters(), network.unused], "lr": slower},
                {"params": [nn.Parameter(torch.ones(2))], "lr": slower}]  # fmt: skip

    optimiser = SGD(groups(ours), momentum, decay)
    expected = torch.optim.SGD(groups(theirs), 1.0, momentum, weight_decay=decay, nesterov=momentum > 0, fused=False)
    for step in range(20):
        rate.fill_(0.1 / (1 + step))
        images = torch.randn(4, 3, 4, 4, dtype=dtype)
        for network, own in ((ours, optimiser), (theirs, expected)):
            own.zero_grad()
            network(images).square().mean().backward()
            own.step()
    tolerance = {"rtol": 0.05, "atol": 0.05} if dtype == torch.bfloat16 else {}
    for name, value in ours.named_parameters():
        torch.testing.assert_close(value, theirs.get_parameter(name), **tolerance)
    for mine, torchs in zip(ours.parameters(), theirs.parameters(), strict=True):
        for key, value in expected.state[torchs].items():
            assert value is not None or not momentum
            if value is not None:
                torch.testing.assert_close(optimiser.state[mine][key], value, **tolerance)
