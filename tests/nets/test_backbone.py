"""Backbones from elsewhere: frozen ones make vectors once, others learn at their own rate; saves ask for them again."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import puridiver
from puridiver import Backbone, DataError, Learner, RunConfig
from puridiver.nets import as_backbone, build_network, is_backbone
from puridiver.options import Options
from puridiver.runs.experiment import Experiment
from tests.learner_samples import SHAPE, differing, feed, patterns, tensors_of

IMAGES, LABELS = patterns(64)


def module(seed: int = 0, channels: int = 1) -> nn.Module:
    """A small network that returns a map of 16 features."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Conv2d(channels, 16, 3), nn.BatchNorm2d(16), nn.ReLU())


def weights(of: nn.Module) -> list[Tensor]:
    return [value.clone() for value in of.state_dict().values()]


def learner(network, **settings) -> Learner:
    return Learner(3, SHAPE, 20, network=network, epochs=2, **settings)


def test_a_frozen_backbone_stays_as_it_is_and_the_memory_holds_its_features() -> None:
    frozen = module()
    before = weights(frozen)
    found = feed(learner(frozen), IMAGES, LABELS)
    found.consolidate()
    assert all(map(torch.equal, before, weights(frozen)))
    assert found.network == "mlp"
    arrivals = found.memory.samples.arrivals
    seen = torch.from_numpy(IMAGES).permute(0, 3, 1, 2)[arrivals]
    expected = frozen((seen / 255 - 0.5) / 0.25).mean(dim=(2, 3))
    torch.testing.assert_close(found.memory.samples.images, expected)
    assert found.predict(IMAGES).shape == (64,)
    assert "network mlp on features of Sequential" in repr(found)
    assert len(found.audit()) == 20


def test_a_learner_with_a_frozen_backbone_is_the_learner_of_its_features() -> None:
    frozen = Backbone(module())
    vectors = frozen.features(torch.from_numpy(IMAGES).permute(0, 3, 1, 2).contiguous())
    first, second = feed(learner(frozen), IMAGES, LABELS), feed(Learner(3, (16,), 20, epochs=2), vectors, LABELS)
    for one in (first, second):
        one.consolidate()
    assert not differing(tensors_of(first), tensors_of(second))


def test_a_backbone_is_fine_tuned_at_a_share_of_the_rate() -> None:
    own, steps = module(), []
    for rate in (0.5, 1.0):
        found = learner(Backbone(own, rate=rate), online_steps=1, momentum=0.0, weight_decay=0.0)
        network = found.trainer.networks[0]
        before = [weights(part) for part in (network.module[0], network.head)]
        found.observe(IMAGES[:8], LABELS[:8])
        after = [weights(part) for part in (network.module[0], network.head)]
        steps.append([b[0] - a[0] for a, b in zip(before, after, strict=True)])
    (slow, head), (fast, same) = steps
    assert fast.abs().max() > 0
    torch.testing.assert_close(2 * slow, fast)
    torch.testing.assert_close(head, same)
    assert found.memory.samples.images.shape == (8, 1, 8, 8)
    assert all(map(torch.equal, weights(own), weights(module())))  # the learner has a copy


@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_a_save_needs_the_module_again_and_goes_on_to_the_same_bits(rate: float, tmp_path) -> None:
    first = feed(learner(Backbone(module(), 0.4, (0.3,), size=12, rate=rate)), IMAGES[:32], LABELS[:32])
    folder = first.save(tmp_path / "learner")
    with pytest.raises(DataError, match="give the module again"):
        Learner.load(folder)
    second, third = Learner.load(folder, network=module()), copy.deepcopy(first)
    assert second.backbone.settings() == first.backbone.settings()
    for one in (first, second, third):
        feed(one, IMAGES[32:], LABELS[32:]).consolidate()
    assert not differing(tensors_of(first), tensors_of(second))
    assert not differing(tensors_of(first), tensors_of(third))


def test_a_save_refuses_another_backbone(tmp_path) -> None:
    folder = learner(module()).save(tmp_path / "a")
    with pytest.raises(DataError, match="a backbone of other weights"):
        Learner.load(folder, network=module(1))
    with pytest.raises(ValueError, match=r"network should be a torch.nn.Module.* but got 'small'"):
        Learner.load(folder, network="small")
    with pytest.raises(ValueError, match="was made without a backbone: leave network out"):
        Learner.load(learner("small").save(tmp_path / "b"), network=module())


class TwoResults(nn.Module):
    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return images, images


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: learner(module(channels=3)), r"cannot take images of the shape \(8, 8, 1\)"),
        (lambda: learner(TwoResults()), r"should return features.* but returned a tuple"),
        (lambda: learner(nn.Flatten(0)), r"but returned torch.float32 \(128,\)"),
        (lambda: Learner(3, (16,), 20, network=module()), r"a backbone takes images .* the input is \(16,\)"),
        (lambda: Backbone("resnet"), "should be a torch.nn.Module, but got a str"),
        (lambda: Backbone(module(), rate=-1), r"from 0 \(frozen\) to 100, but got -1"),
        (lambda: Backbone(module(), std=0), "a number or three, a std above 0"),
        (lambda: Backbone(module(), mean=(0.1, 0.2)), "a number or three"),
        (lambda: learner(module(), flip=True), "flip is an option for images"),  # it learns from vectors
        (lambda: learner("hf:/no/such/folder"), "'hf:/no/such/folder' "),
        (lambda: puridiver.audit(IMAGES, LABELS, network=Backbone(module(), rate=1)), "takes a frozen backbone"),
        (lambda: Backbone.named("resnet18"), "should be timm:... or hf:..., but is 'resnet18'"),
        (lambda: learner("timm:no-such-model"), "'timm:no-such-model' "),
    ],
)
def test_backbones_that_cannot_be_used_are_refused(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_grey_images_are_repeated_for_three_channels_and_resized() -> None:
    seen = []
    own = nn.Sequential(nn.Conv2d(3, 4, 3))
    own.register_forward_pre_hook(lambda _, images: seen.append(images[0]))
    Backbone(own, (0.1, 0.2, 0.3), 1.0, size=10).features(torch.full((2, 1, 8, 8), 255, dtype=torch.uint8))
    assert seen[0].shape == (2, 3, 10, 10)
    torch.testing.assert_close(seen[0][0, :, 0, 0], torch.tensor([0.9, 0.8, 0.7]))


def test_a_network_of_the_package_is_a_backbone() -> None:
    own = build_network("small", 3, SHAPE, Options(), torch.Generator().manual_seed(0))
    assert feed(learner(own), IMAGES[:16], LABELS[:16]).sample_shape == (96,)


def test_an_audit_takes_a_frozen_backbone() -> None:
    report = puridiver.audit(IMAGES, LABELS, network=module(), passes=1, memory=20, epochs=2)
    assert report.settings.network == "mlp"
    assert len(report.p_correct) == 64


def test_names_choose_a_library() -> None:
    assert is_backbone("timm:resnet18")
    assert not is_backbone("small")
    assert as_backbone("small") is None


def test_a_vision_model_of_transformers_by_object_and_by_name(tmp_path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=16, patch_size=8
    )
    model, folder = transformers.ViTModel(config), tmp_path / "vit"
    model.save_pretrained(folder)
    processing = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2] * 3, "size": {"height": 16, "width": 16}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processing))
    by_object = learner(Backbone(model, (0.5, 0.4, 0.3), 0.2, 16))
    by_name = learner(f"hf:{folder}")
    assert by_name.backbone.scaling == ((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    found = [feed(one, IMAGES[:16], LABELS[:16]).predict_proba(IMAGES) for one in (by_object, by_name)]
    assert np.array_equal(*found)
    loaded = Learner.load(by_name.save(tmp_path / "learner"))  # by its name
    assert np.array_equal(loaded.predict_proba(IMAGES), found[1])
    tuned = feed(learner(Backbone.named(f"hf:{folder}", rate=0.1)), IMAGES[:16], LABELS[:16])
    assert (tuned.network, tuned.backbone.scaling) == ("backbone", by_name.backbone.scaling)
    again = Learner.load(tuned.save(tmp_path / "tuned"))
    assert np.array_equal(again.predict_proba(IMAGES), tuned.predict_proba(IMAGES))
    np.savez(tmp_path / "data.npz", train_images=IMAGES, train_labels=LABELS)
    run = RunConfig(data=str(tmp_path / "data.npz"), network=f"hf:{folder}", tasks=1, epochs=2, test_share=0.2)
    assert Experiment(run).run()["network"] == f"hf:{folder}"


def test_a_model_of_timm_by_name(monkeypatch) -> None:
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # torchvision may not fit the torch that is here
        pytest.skip(f"timm cannot be imported: {error}")
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained, **more: create(name, pretrained=False, **more))
    assert as_backbone("timm:resnet18").width((32, 32, 3)) == 512


@pytest.mark.gpu
@pytest.mark.parametrize("rate", [0.0, 0.2])
def test_a_backbone_learns_on_a_gpu_and_its_save_loads_on_a_cpu(rate: float, tmp_path) -> None:
    own = Backbone(module(channels=3), (0.4, 0.5, 0.6), 0.3, size=12, rate=rate)
    first = feed(learner(own, device="cuda", precision="float32"), IMAGES, LABELS)
    first.consolidate()
    second = Learner.load(first.save(tmp_path / "learner"), device="cpu", network=module(channels=3))
    np.testing.assert_allclose(first.predict_proba(IMAGES), second.predict_proba(IMAGES), atol=1e-3)
