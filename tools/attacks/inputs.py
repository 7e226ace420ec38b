"""Attacks by input: files of others, calls of the library, command lines, folders that hold something else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import puridiver
from attacks.cases import (
    ATTACKS,
    AUDIT,
    BATCH,
    LABELS,
    REFUSED,
    RUN,
    Attack,
    Case,
    attack,
    contents,
    copied,
    digest,
    require,
    shared_learner,
    told,
    yard,
)
from attacks.hostile import TEXTS, VALUES, odd, odd_json, spoil
from puridiver import Learner
from puridiver.auditing.folder import read_corrections
from puridiver.auditing.passes import LabelledSet
from puridiver.cli.app import build, command_names
from puridiver.data import FileOptions, load
from puridiver.data.arrays import from_arrays
from puridiver.learner import storage
from puridiver.options import declared
from puridiver.streams.manifest import StreamManifest

# What reads each kind of file -----------------------------------------------------------------------------------------


def read_data(path: Path) -> None:
    load(str(path), path.parent / "root", FileOptions(None if path.suffix == ".npz" else 8, 0.0, "refuse"))


def read_manifest(path: Path) -> None:
    StreamManifest.load(path)
    told(0, 1, 2, "stream", "verify", str(path), "--data", "digits")


def use_learner(path: Path) -> None:
    """Load a learner; what loads must be able to go on."""
    learner = Learner.load(path.parent, device="cpu")
    learner.predict(BATCH)
    learner.observe(BATCH, LABELS)
    learner.consolidate(1)
    learner.audit()


def read_run_folder(path: Path) -> None:
    told(0, 2, "table", str(path.parent))
    if path.name in ("metrics.jsonl", "memory.safetensors"):
        told(0, 2, "report", str(path.parent), "--out", str(path.parent.parent / "page.html"))
    told(0, 2, *RUN, "--out", str(path.parent), "--resume")


def read_audit_folder(path: Path) -> None:
    told(0, 2, *AUDIT, str(yard() / "arrays.npz"), "--out", str(path.parent))


def read_review(path: Path) -> None:
    read_corrections(path, LabelledSet(torch.zeros(4, 8, 8, 1), np.zeros(4, int), ["cat", "dog"], list("abca")))


READERS: dict[str, tuple[int, list[str], Callable[[Path], Any]]] = {
    "images": (2_500, ["image.png", "image.jpg", "image.bmp", "image.gif", "image.webp", "image.tiff"],
               lambda path: puridiver.image_batch([str(path)], (8, 8, 3))),
    "tables": (1_500, ["table.csv", "table.jsonl", "table.parquet"], read_data),
    "arrays": (800, ["arrays.npz"], read_data),
    "manifests": (500, ["run/manifest.json"], read_manifest),
    "saves": (600, ["learner/state.safetensors"], use_learner),
    "run_folders": (200, [f"run/{n}" for n in ("config.json", "summary.json", "metrics.jsonl", "manifest.json",
                                              "memory.safetensors", "learner/state.safetensors")], read_run_folder),
    "audit_folders": (200, [f"audit/{name}" for name in ("audit.json", "labels.csv", "suspects.csv", "summary.json")],
                      read_audit_folder),
    "ledgers": (500, ["ledger.jsonl"], lambda path: told(0, 2, "table", str(path))),
    "grid_files": (500, ["grid.toml"], lambda path: told(0, 2, "grid", str(path), "--dry-run")),
    "corrections": (500, ["corrections.csv"], read_review),
}  # fmt: skip


def damaged_file(kind: str, case: Case) -> None:
    _, names, reader = READERS[kind]
    path = copied(case, case.one(names))
    spoil(case, path)
    with contextlib.suppress(*REFUSED):
        reader(path)


for _kind, (_cases, _, _) in READERS.items():
    ATTACKS[_kind] = Attack(partial(damaged_file, _kind), _cases, "read, or refused with one line that names the fault")


@attack(600, "loaded and able to go on, or refused by a DataError")
def saves_with_right_checksums(case: Case) -> None:
    path = copied(case, "learner/state.safetensors")
    settings, tensors = storage.load(path.parent)
    if case.chance(0.5):
        changed = odd_json(case, settings)
        settings = changed if isinstance(changed, dict) else {}
    else:
        name = case.one(sorted(tensors))
        value = tensors[name]
        others = [
            value[:0] if value.ndim else value[None], value.double() + 1e30, value.flatten()[:1], value.bool(),
            torch.full_like(value, 127), torch.zeros(3, 5), value[None],
        ]  # fmt: skip
        tensors = {**tensors, case.one([name, name, "more"]): case.one(others)}
    storage.save(path.parent, settings, tensors)
    with contextlib.suppress(*REFUSED):
        use_learner(path)


@attack(400, "read, or refused by a ManifestError")
def manifests_with_right_hashes(case: Case) -> None:
    path = copied(case, "run/manifest.json")
    content = json.loads(path.read_text())
    del content["content_hash"]
    content = odd_json(case, content)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    if isinstance(content, dict):
        content["content_hash"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(content))
    with contextlib.suppress(*REFUSED):
        read_manifest(path)


@attack(400, "read, or refused by a DataError")
def odd_arrays_in_files(case: Case) -> None:
    content = dict(np.load(yard() / "arrays.npz"))
    content[case.one([*content, "train_true_labels", "more"])] = np.asarray(case.one([99_999, -1, 2**62, "é", 1.5]))
    with contextlib.suppress(TypeError, ValueError, RuntimeError):  # what NumPy itself does not take
        content[case.one(sorted(content))] = np.array(odd(case))
    np.savez_compressed(case.folder / "a.npz", **content)
    with contextlib.suppress(*REFUSED):
        read_data(case.folder / "a.npz")


@attack(300, "refused at once: nothing waits for a pipe or reads a device")
def pipes_and_devices(case: Case) -> None:
    _, names, reader = READERS[case.one(sorted(READERS))]
    place = copied(case, case.one(names))
    place.unlink()
    if case.chance(0.5):
        os.mkfifo(place)
    else:
        place.symlink_to(case.one(["/dev/zero", "/dev/tty", "/dev/random", place.name, "/proc/self/mem", "/"]))
    with contextlib.suppress(*REFUSED):
        if place.stem == "image":  # a table names it
            (case.folder / "names.csv").write_text(f"path,label\n{place},a\n")
            read_data(case.folder / "names.csv")
        reader(place)


# The programming interface and the command line -----------------------------------------------------------------------


@attack(3_000, "taken, or refused by a ValueError and nothing of the learner changes")
def learner_calls(case: Case) -> None:
    learner, before = shared_learner()
    images, labels = (odd(case) if case.chance(0.5) else good for good in (BATCH, LABELS))
    calls: list[Callable[[], Any]] = [
        lambda: learner.observe(images, labels, None if case.chance(0.7) else odd(case)),
        lambda: learner.predict(images),
        lambda: learner.predict_proba(odd(case)),
        lambda: learner.correct(odd(case)),
        lambda: learner.correct({case.one(VALUES[:12]): odd(case)}, by_id=case.chance(0.5)),
        lambda: learner.correct({0: "dog", 700: "dog"}, images=images),
        lambda: learner.forget(odd(case), by_id=case.chance(0.5)),
        lambda: learner.remove_class(odd(case)),
        lambda: learner.resize(odd(case)),
        lambda: learner.consolidate(case.one([0, -1, "x", 1.5])),
        lambda: puridiver.image_batch(odd(case), (8, 8, 1)),
        lambda: from_arrays(images, labels, odd(case), odd(case)),
        lambda: puridiver.audit(odd(case), labels, epochs=1),
        lambda: puridiver.audit(images, labels, epochs=1, passes=case.one(VALUES[:10])),
    ]
    try:
        case.one(calls)()
    except REFUSED:
        require(digest(learner) == before, "an error changed the learner")
    if digest(learner) != before:
        shared_learner.cache_clear()
        learner.predict(BATCH)


@attack(600, "made, or refused by a ValueError")
def learner_settings(case: Case) -> None:
    settings: dict[str, Any] = {
        "classes": 3, "input_shape": (8, 8, 1), "memory": 8, "network": "small", "sampler": "rsv", "trainer": "plain",
        "recipe": "paper", "device": "cpu", "seed": 0,
    }  # fmt: skip
    small = [value for value in VALUES if not (isinstance(value, int) and value > 1_000)]
    settings[case.one([*settings, *declared()])] = case.one(small)
    with contextlib.suppress(*REFUSED):
        Learner(**settings)


@cache
def flags() -> dict[str, list[str]]:
    """The long options of each command that may be tried; downloads, browsers, clusters and code are left out."""
    never = {"--open", "--plugin", "--engine", "--ray-address", "--help", "--data-root"}
    commands = dict(build(command_names()).commands)
    del commands["data"]
    streams = commands.pop("stream").commands  # type: ignore[attr-defined]
    commands |= {f"stream {name}": found for name, found in streams.items()}
    options = {name: {flag for param in found.params for flag in param.opts} for name, found in commands.items()}
    return {name: sorted(flag for flag in own - never if flag.startswith("--")) for name, own in options.items()}


@attack(700, "exit code 0 to 3, no traceback, no escape codes on the terminal")
def command_line(case: Case) -> None:
    place, name = str(yard()), case.one(sorted(flags()))
    good = {
        "run": [*RUN, "--data", f"{place}/arrays.npz"], "audit": [*AUDIT, f"{place}/arrays.npz"],
        "predict": ["predict", f"{place}/learner", f"{place}/image.png"], "report": ["report", f"{place}/run"],
        "learn": ["learn", f"{place}/learner", f"{place}/table.csv"], "grid": ["grid", "table1"],
        "table": ["table", f"{place}/ledger.jsonl"], "figure": ["figure", "accuracy", f"{place}/run"],
    }  # fmt: skip
    words, texts = list(good.get(name, name.split())), [text for text in TEXTS if not text.isdecimal()]
    for _ in range(1 + case.below(3)):
        at = 1 + case.below(len(words))
        if case.chance(0.5):
            words += [
                case.one([*flags()[name], "--no-such"]),
                case.one([*texts, "1", "2", "cpu", str(case.folder / "x"), "lr=nan"]),
            ]
        else:
            words[at : at + case.below(2)] = case.one([[], [case.one(texts)]])
    with contextlib.chdir(case.folder):
        told(0, 1, 2, 3, *words, *(["--dry-run"] if name == "grid" else []))


@attack(200, "nothing that a user put there changes; no link is written through")
def foreign_folders(case: Case) -> None:
    out, victim, place = case.folder / "out", case.folder / "victim", str(yard())
    out.mkdir()
    victim.write_text("precious")
    names = [
        ".lock", ".audit.lock", "config.json", "summary.json", "metrics.jsonl", "plugins/mine.py", "learner/mine.txt",
        "checkpoint/mine.txt", "labels.csv", "pass-1/x", "report.html", "audit.html", "notes.txt", "page.html",
    ]  # fmt: skip
    for name in case.rng.choice(names, 1 + case.below(5), replace=False).tolist():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_text("{}" if name.endswith(".json") and case.chance(0.5) else "mine")
    if case.chance(0.5):
        link = out / case.one(["report.html", "config.json", "metrics.jsonl", "audit.json", "labels.csv", "page.html"])
        link.unlink(missing_ok=True)
        link.symlink_to(victim)
    before, force = contents(out), case.chance(0.4)
    works = [
        [*RUN, "--out", str(out)], [*AUDIT, f"{place}/arrays.npz", "--out", str(out)],
        ["learn", f"{place}/learner", f"{place}/table.csv", "--new-classes", "--out", str(out)],
        ["report", f"{place}/run", "--out", str(out / "page.html")],
    ]  # fmt: skip
    words = case.one(works)
    told(0, 1, 2, *words, *["--force"] * force)
    asked = {"page.html"} if force and words[0] == "report" else set()  # what --force names
    after = contents(out)
    lost = [name for name in before.keys() - asked if not name.endswith(".lock") and after.get(name) != before[name]]
    require(not lost, f"{words[0]} lost {lost}")
    require(victim.read_text() == "precious", "a link was written through")
