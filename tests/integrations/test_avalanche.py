"""Our sampler and consolidation inside Avalanche's own strategies, on a manifest as its benchmark."""

from __future__ import annotations

import importlib.util
import warnings
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from puridiver import data
from puridiver.data.base import DataSource
from puridiver.streams import StreamManifest, resolve_stream
from tests.integrations.test_page import code_of

OPERATORS: list[torch.library.Library] = []  # they last as long as their library
pytestmark = pytest.mark.filterwarnings("ignore")  # of the library's own


@pytest.fixture(scope="module")
def ours() -> ModuleType:
    if importlib.util.find_spec("avalanche") is None:
        pytest.skip("needs Avalanche: pip install 'puridiver[avalanche]'")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import torchvision  # noqa: F401
        except RuntimeError:  # built for another torch: it lacks the operators of detection, which nobody needs here
            OPERATORS.append(torch.library.Library("torchvision", "DEF"))
            for name in ("nms", "qnms"):
                OPERATORS[0].define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("puridiver.integrations.avalanche")


@pytest.fixture(scope="module")
def source() -> DataSource:
    return data.load("digits")


@pytest.fixture(scope="module")
def manifest(source: DataSource) -> StreamManifest:
    return resolve_stream("blurry-10", source, n_tasks=2, noise="sym-20", seed=0)


def strategy(ours: ModuleType, plugin: Any, **settings: Any) -> Any:
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.training import Naive
    from avalanche.training.plugins import EvaluationPlugin

    return Naive(
        model=plugin.model, optimizer=torch.optim.SGD(plugin.model.parameters(), lr=0.05), train_mb_size=32,
        eval_mb_size=256, plugins=[plugin], evaluator=EvaluationPlugin(accuracy_metrics(stream=True), loggers=[]),
        **settings,
    )  # fmt: skip


def test_a_manifest_is_a_benchmark(ours, source, manifest):
    benchmark = ours.benchmark_of(source, manifest)
    assert [len(e.dataset) for e in benchmark.train_stream] == np.diff((0, *manifest.task_ends)).tolist()
    image, label, task = benchmark.train_stream[1].dataset[3]
    arrival = manifest.task_ends[0] + 3
    assert torch.equal(image.permute(1, 2, 0), source.train.images[manifest.order[arrival]])
    assert (int(label), task) == (manifest.labels[arrival], 0)
    (test,) = benchmark.test_stream
    assert list(test.dataset.targets) == source.test.labels.tolist()


def test_a_strategy_learns_with_our_memory_and_consolidations(ours, source, manifest):
    plugin = ours.PuriDivERPlugin(10, source.input_shape, memory=60, epochs=15, device="cpu")
    benchmark, online = ours.benchmark_of(source, manifest), dict[str, torch.Tensor]()
    trained = strategy(ours, plugin)

    class Before(ours.SupervisedPlugin):
        def after_training_epoch(self, strategy: Any, **kwargs: Any) -> None:
            online.update({name: value.clone() for name, value in strategy.model.state_dict().items()})

    trained.plugins.append(Before())
    for number, experience in enumerate(benchmark.train_stream, start=1):
        trained.train(experience, shuffle=False)
        assert plugin.learner.consolidations == number
    assert any(not torch.equal(online[name], value) for name, value in plugin.model.state_dict().items())
    learner, buffer = plugin.learner, plugin.storage_policy.buffer
    assert (learner.seen, len(buffer), plugin.storage_policy.max_size) == (len(manifest), 60, 60)
    samples = learner.memory.samples
    assert torch.equal(samples.labels, torch.tensor(manifest.labels)[samples.arrivals])
    assert [int(label) for label in buffer.targets] == samples.labels.tolist()
    (accuracy,) = trained.eval(benchmark.test_stream).values()
    found = learner.predict_proba(source.test.images, as_it_is=True).argmax(axis=1)
    assert accuracy == pytest.approx((found == source.test.labels.numpy()).mean())
    assert accuracy > 0.6


def test_what_cannot_work_is_refused(ours, source, manifest):
    plugin, experience = ours.PuriDivERPlugin(10, (8, 8, 1), device="cpu"), ours.benchmark_of(source, manifest)
    with pytest.raises(ValueError, match="train_epochs=1"):
        strategy(ours, plugin, train_epochs=2).train(experience.train_stream[0])
    with pytest.raises(ValueError, match=r"device is meta and the plugin's cpu"):
        plugin.before_training_exp(SimpleNamespace(model=plugin.model, train_epochs=1, device="meta"))
    with pytest.raises(ValueError, match="a trainer with one network"):
        ours.PuriDivERPlugin(10, (8, 8, 1), device="cpu", trainer="coteaching")
    with pytest.raises(ValueError, match="leave Normalize out"):
        plugin.model(torch.full((2, 1, 8, 8), -0.5))
    assert torch.equal(plugin.model(torch.ones(2, 1, 8, 8)), plugin.model(torch.full((2, 1, 8, 8), 255).byte()))
    with pytest.raises(ValueError, match="keeps its size"):
        plugin.storage_policy.resize(None, 3)


def test_the_code_of_the_page_runs(ours):
    exec(code_of("Avalanche"), {})
