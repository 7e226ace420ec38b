import dataclasses

import pytest

import puridiver.streams
from puridiver.streams import make_stream, resolve_stream

from .samples import small_source
from .splits import write_npz

SOURCE = small_source()


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("blurry-10", {"kind": "blurry", "minor_share": 0.1}),
        ("blurry-30:sym-20", {"kind": "blurry", "minor_share": 0.3, "noise": "sym-20"}),
        ("blurry-0.25:none", {"kind": "blurry", "minor_share": 0.25, "noise": "none"}),
        ("disjoint", {"kind": "disjoint"}),
        ("disjoint:asym-40", {"kind": "disjoint", "noise": "asym-40"}),
    ],
)
def test_streams_made_by_a_spec(spec, options):
    assert resolve_stream(spec, SOURCE) == make_stream(SOURCE, **options)


def test_options_fill_in_what_the_spec_does_not_say():
    resolved = resolve_stream("blurry-10:sym-20", SOURCE, seed=3, n_tasks=2, noise="none", minor_share=0.5)
    assert resolved == make_stream(SOURCE, seed=3, n_tasks=2, noise="sym-20", minor_share=0.1)


def test_a_manifest_by_its_path(tmp_path):
    manifest = make_stream(SOURCE, seed=5)
    manifest.save(tmp_path / "stream.json")
    assert resolve_stream(str(tmp_path / "stream.json"), SOURCE, seed=1) == manifest


def test_an_official_stream_needs_its_splits(tmp_path):
    stream = dataclasses.replace(make_stream(SOURCE, seed=1), task_ends=(60, 120, 180, 240, 300))
    path = write_npz(tmp_path / "small.npz", stream)
    assert resolve_stream("official:sym40:1:listed", SOURCE, path).order.tolist() == stream.order.tolist()
    shuffled = resolve_stream("official:sym40:1", SOURCE, path)
    assert shuffled == resolve_stream("official:sym40:1:shuffled", SOURCE, path)
    assert shuffled.order.tolist() != stream.order.tolist()
    with pytest.raises(ValueError, match="published split files"):
        resolve_stream("official:sym40:1", SOURCE)


@pytest.mark.parametrize("spec", ["", "blurry", "fuzzy-10", "blurry-100", "blurry-10:pink", "disjoint-10"])
def test_unknown_specs_are_refused(spec):
    with pytest.raises(ValueError, match="should be"):
        resolve_stream(spec, SOURCE)


def test_public_names_are_sorted_and_there():
    names = puridiver.streams.__all__
    assert names == sorted(names, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(hasattr(puridiver.streams, name) for name in names)
