"""The fast path computes what the plain one does: captured against eager, lanes against alone, plans against draws."""

from __future__ import annotations

import gc
import logging
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from puridiver import Learner
from puridiver.memory import SAMPLERS
from puridiver.options import owners
from puridiver.runtime import capture, plans
from puridiver.runtime.device import Runtime, choose_runtime, release_freed_memory, steady_threads
from puridiver.runtime.plans import PlanRunner, captured
from puridiver.trainers import TRAINERS, NoiseHint
from tests.learner_samples import SHAPE, TINY, patterns

CPU = torch.device("cpu")
LAST_BATCH: dict[str, Any] = {"batch_size": 7, "last_batch": "trained", "warmup_epochs": 2}  # 24 = 3 * 7 + 3


def test_graphs_that_are_not_used_any_more_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """With captures faked on the CPU: a stream of ever new shapes must not fill the memory."""
    monkeypatch.setattr(capture.Captures, "capture", lambda self, function, device, shared: None)
    faked = Runtime(CPU, graphs=True)
    runner, negative = PlanRunner(faked, lambda row, n: None), captured(faked, torch.neg)
    for n in range(1, 200):
        runner(torch.zeros(1, n, dtype=torch.int64), n)
        negative(torch.zeros(n))
    assert len(runner._loops) == len(negative._calls) == plans.MOST_GRAPHS
    assert negative(torch.ones(199)).tolist() == [-1] * 199


def test_a_capture_that_fails_is_tried_again_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With captures faked on the CPU: one try a plan, and every row is run whatever becomes of it."""
    tries, rows = [], []
    monkeypatch.setattr(capture.Captures, "capture", lambda self, function, device, shared: tries.append(len(rows)))
    runner = PlanRunner(Runtime(CPU, graphs=True), lambda row: rows.append(int(row)))
    for _ in range(plans.MOST_TRIES + 2):
        runner(torch.tensor([[1], [2], [3]]))
    assert rows == [1, 2, 3] * (plans.MOST_TRIES + 2)
    assert tries == [1, *(3 * n for n in range(1, plans.MOST_TRIES))]
    assert [message for message in caplog.messages if "uncaptured" in message] == [caplog.messages[-1]]
    increment = captured(Runtime(CPU, graphs=True), lambda x, by: (x + by,))
    assert [increment(torch.tensor([float(n)]), 2)[0].item() for n in range(6)] == [2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "tpu9"}, "device should be auto, cpu, cuda"),
        ({"device": "mps"}, "device should be auto, cpu, cuda"),
        ({"precision": "half"}, "precision should be one of"),
    ],
)
def test_what_cannot_be_chosen_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose_runtime(**arguments)


def test_nested_runs_of_the_small_network_use_one_thread_and_set_the_number_back() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with steady_threads(CPU, "small"):
            with steady_threads(CPU, "small"):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        with steady_threads(CPU, "resnet18"):
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_cpu_computes_in_float32_whatever_was_asked(caplog: pytest.LogCaptureFixture) -> None:
    assert choose_runtime("cpu", "bfloat16") == Runtime(CPU)
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("capability", "asked", "precision", "steady"),
    [((9, 0), "auto", "bfloat16", False), ((9, 0), "float32", "float32", True), ((7, 5), "auto", "float32", True)],
)
def test_float32_on_a_gpu_asks_for_steady_convolutions(
    capability: tuple[int, int], asked: str, precision: str, steady: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a GPU faked: that convolutions are steady then is shown by the tests of resuming, on a real one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert choose_runtime("cuda", asked).precision == precision
    assert torch.backends.cudnn.deterministic == steady


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_missing_gpu_is_named() -> None:
    assert choose_runtime("auto").device == CPU
    with pytest.raises(ValueError, match="sees no CUDA GPU; use cpu"):
        choose_runtime("cuda")


def test_another_default_type_of_torch_is_refused_with_what_to_do() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ValueError, match="default type should be float32"):
            choose_runtime("cpu")
    finally:
        torch.set_default_dtype(torch.float32)


# Whole learners ----------------------------------------------------------------------------------------------------


def learned(**settings: Any) -> dict[str, Tensor]:
    """Everything a tiny learner is made of after two tasks, on the CPU."""
    images, labels = patterns(72)
    hint = NoiseHint("asym", 0.25)
    method = {"sampler": "puridiver", "trainer": "puridiver", "network": "small", "recipe": "puridiver"}
    options = {**TINY, "epochs": 6, "baseline_warmup": 2, **method, **settings}
    chosen = {f"{family} {options[family]}" for family in ("sampler", "trainer")}
    reached = {name: value for name, value in options.items() if not owners(name) or chosen & set(owners(name))}
    learner = Learner(3, SHAPE, 24, hint=hint, **reached)
    for start in range(0, 72, 8):
        learner.observe(images[start : start + 8], labels[start : start + 8])
        if start in (32, 64):
            learner.consolidate()
    found = {"memory.arrivals": learner.memory.samples.arrivals, **learner.trainer.state()}
    return {name: value.detach().cpu() for name, value in found.items()}


def assert_alike(first: dict[str, Tensor], second: dict[str, Tensor], tolerance: float) -> None:
    assert first["memory.arrivals"].tolist() == second["memory.arrivals"].tolist()
    for name in first:
        torch.testing.assert_close(first[name].float(), second[name].float(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("trainer", ["puridiver", "dividemix", "elr", "spr"])
def test_replayed_steps_read_the_buffers_that_were_filled_for_them(
    trainer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With graphs faked on the CPU: a replay runs the function again, on whatever its buffers hold then."""
    replays: list[object] = []

    class FakeGraph:
        def __init__(self, function: Any) -> None:
            self.function = function

        def replay(self) -> None:
            replays.append(self)
            self.function()

    expected = learned(trainer=trainer, device="cpu", **LAST_BATCH)
    monkeypatch.setattr(capture.Captures, "capture", lambda self, function, device, shared: FakeGraph(function))
    monkeypatch.setattr("puridiver.learner.learner.choose_runtime", lambda *_, **__: Runtime(CPU, graphs=True))
    assert_alike(learned(trainer=trainer, **LAST_BATCH), expected, 0)
    assert len(set(replays)) > 3


@pytest.mark.gpu
@pytest.mark.parametrize("options", [{"online_average": 0.8}, LAST_BATCH], ids=["average", "last_batch"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_captured_steps_are_the_eager_steps(trainer: str, options: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"trainer": trainer, "device": "cuda", "precision": "float32", **options}
    assert_alike(learned(**settings, graphs=False), learned(**settings, graphs=True), 1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("large_image", [1, 1 << 14])
def test_samplers_choose_the_same_captured_or_not(
    sampler: str, large_image: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("puridiver.memory.puridiver.LARGE_IMAGE", large_image)
    settings = {"sampler": sampler, "trainer": "plain", "device": "cuda", "precision": "float32"}
    assert_alike(learned(**settings, graphs=False), learned(**settings, graphs=True), 1e-3)


@pytest.mark.gpu
def test_lanes_learn_what_a_run_alone_learns() -> None:
    settings: dict[str, Any] = {"device": "cuda", "precision": "float32"}
    alone = [learned(**settings, seed=seed) for seed in range(4)]

    def in_lane(seed: int) -> dict[str, Tensor]:
        with capture.lane(torch.device("cuda")):
            return learned(**settings, seed=seed)

    with ThreadPoolExecutor(4) as threads:
        for one, other in zip(alone, threads.map(in_lane, range(4)), strict=True):
            assert_alike(one, other, 1e-3)


@pytest.mark.gpu
def test_no_step_could_not_be_captured(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)  # where a single try that failed is told
    for trainer in TRAINERS:
        learned(trainer=trainer, device="cuda")
    assert [m for m in caplog.messages if "captured" in m] == []


@pytest.mark.gpu
def test_a_graph_that_is_dead_stays_until_a_capture_has_ended() -> None:
    """Let go of within a capture, an earlier run's graph spoils that."""
    device, count = torch.device("cuda"), torch.zeros(1, device="cuda")
    dead: list[Any] = [capture.Captures().capture(lambda: count.add_(1), device, shared=True)]
    dead.append(dead)  # a ring, which only the collector lets go of
    del dead

    def step() -> None:
        count.add_(1)
        if gc.isenabled():
            gc.collect()  # as Python may by itself wherever an object is made
        count.add_(1)

    assert capture.Captures().capture(step, device, shared=True) is not None
    assert gc.isenabled()


@pytest.mark.gpu
def test_small_tensors_arrive_unchanged_however_far_the_host_runs_ahead():
    runtime = choose_runtime("cuda")
    torch.cuda._sleep(200_000_000)  # the copies below wait on the device, more of them than there are slots
    sent = [torch.arange(n % 7 + 1) + n for n in range(3 * runtime.staging.SLOTS)]
    sent += [torch.tensor(True), torch.rand(3, 5), torch.rand(4, 6).t(), torch.empty(0, 2), torch.rand(40_000)]
    moved = [runtime.move(tensor) for tensor in sent]
    for tensor, there in zip(sent, moved, strict=True):
        assert there.device.type == "cuda"
        assert there.dtype == tensor.dtype
        assert torch.equal(there.cpu(), tensor)


@pytest.mark.gpu
def test_a_run_goes_on_capturing_after_a_capture_that_failed() -> None:
    here = choose_runtime("cuda", "float32")
    spoil, counted = [True], torch.zeros(1, device="cuda")

    def step(row: Tensor, n: int) -> None:
        counted.add_(row.sum())
        if torch.cuda.is_current_stream_capturing() and spoil:
            spoil.clear()
            torch.cuda.synchronize()  # not permitted while capturing

    runner = PlanRunner(here, step)
    for n in (1, 2):
        for _ in range(4):
            runner(torch.ones(5, n, dtype=torch.int64), n)
    assert counted.item() == 4 * 5 * (1 + 2)
    assert all(loop.graph is not None for loop in runner._loops.values())


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library gives memory back by itself")
def test_memory_freed_between_what_is_kept_goes_back_to_the_system() -> None:
    def resident() -> int:
        """MiB that the process holds."""
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

    blocks = [bytes(20_000) for _ in range(5_000)]  # 95 MiB
    kept = blocks[::50]
    del blocks
    before = resident()
    release_freed_memory()
    assert before - resident() > 50
    assert len(kept) == 100
