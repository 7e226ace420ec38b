"""What an attack is, and good examples of all that the package reads."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from puridiver import Learner, PuridiverError
from puridiver.cli.app import main as command

REFUSED = (ValueError, PuridiverError)  # what a user is told
SECONDS = 60  # for one case
TINY = ["--memory", "12", "--network", "small", "--device", "cpu", "--epochs", "1", "--quiet"]
RUN = [
    "run", *TINY, "--tasks", "2", "--stream-limit", "16", "--test-limit", "8", "--no-diversity", "--sampler", "rsv",
    "--trainer", "plain", "--anytime-points", "1", "--checkpoint-every", "1e-9",
]  # fmt: skip
AUDIT = ["audit", *TINY, "--passes", "1", "--parts", "1"]
BATCH, LABELS = np.zeros((3, 8, 8, 1), np.uint8), ["cat", "dog", "owl"]


class Broke(Exception):
    """A case did not end as expected."""


@dataclass(frozen=True)
class Case:
    """One case of an attack: its random numbers, and an empty folder of its own."""

    rng: np.random.Generator
    folder: Path

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one(self, values: Sequence[Any]) -> Any:
        return values[self.below(len(values))]

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))


@dataclass(frozen=True)
class Attack:
    run: Callable[[Case], None]
    cases: int
    expected: str


ATTACKS: dict[str, Attack] = {}


def attack(cases: int, expected: str) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    def register(run: Callable[[Case], None]) -> Callable[[Case], None]:
        ATTACKS[run.__name__] = Attack(run, cases, expected)
        return run

    return register


def require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Broke(otherwise)


@cache
def yard() -> Path:
    """A folder with a good example of all that the package reads."""
    place, rng, labels = Path(tempfile.mkdtemp(prefix="attack-")), np.random.default_rng(0), np.arange(40) % 2
    place.chmod(0o755)
    images = (rng.integers(60, size=(40, 8, 8)) + 150 * labels[:, None, None]).astype(np.uint8)
    parts = {"train_images": images, "train_labels": labels, "test_images": images[:8], "test_labels": labels[:8]}
    np.savez(place / "arrays.npz", **parts, class_names=np.array(["cat", "dog"]))
    for ending in ("png", "jpg", "bmp", "gif", "webp", "tiff"):
        Image.fromarray(rng.integers(256, size=(9, 10, 3), dtype=np.uint8)).save(place / f"image.{ending}")
    days = [f"2024-01-0{day}" for day in range(1, 5)]
    table = pd.DataFrame({"path": f"{place}/image.png", "label": list("abab"), "timestamp": days})
    table.to_csv(place / "table.csv", index=False)
    table.to_json(place / "table.jsonl", orient="records", lines=True)
    table.to_parquet(place / "table.parquet")
    (place / "corrections.csv").write_text("row,name,corrected_label\n0,a,dog\n1,b,\n")
    (place / "grid.toml").write_text('[grid]\ndata = ["digits"]\nmethods = ["rsv+plain"]\nnoises = ["sym-20"]\n')
    fresh().save(place / "learner")
    told(0, *RUN, "--out", f"{place}/run", "--ledger", f"{place}/ledger.jsonl")
    told(0, *AUDIT, f"{place}/arrays.npz", "--out", f"{place}/audit")
    told(0, "report", f"{place}/run", "--out", f"{place}/report.html")  # imports, too, what a child may not be able to
    return place


def fresh(seed: int = 0) -> Learner:
    """A small learner that may grow, has seen 12 images and trained on its memory."""
    images = np.random.default_rng(seed).integers(256, size=(12, 8, 8, 1), dtype=np.uint8)
    learner = Learner(None, (8, 8, 1), 8, network="small", device="cpu", sampler="rsv", trainer="plain", seed=seed)
    learner.observe(images, LABELS * 4, ids=range(12))
    learner.consolidate(1)
    return learner


@cache
def shared_learner() -> tuple[Learner, str]:
    """A learner for many cases, and its digest; made anew once a case has changed it."""
    learner = fresh()
    return learner, digest(learner)


def told(*codes_and_words: Any) -> str:
    """All output of a command line, which must end with one of the codes and show no traceback or escape code."""
    codes = [code for code in codes_and_words if isinstance(code, int)]
    words, output = [word for word in codes_and_words if isinstance(word, str)], io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = command(words)
    text = output.getvalue()
    fine = code in codes and "Traceback" not in text and "\x1b" not in text
    require(fine, f"{[word[:200] for word in words]} ended with {code}:\n{text[-2000:]}")
    return text


def digest(learner: Learner) -> str:
    """A hash of all that a learner is."""
    settings, tensors = learner.state()
    found = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for name in sorted(tensors):
        found.update(name.encode() + tensors[name].detach().contiguous().numpy().tobytes())
    return found.hexdigest()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


def copied(case: Case, name: str) -> Path:
    """A copy of one of the yard's files; of the whole folder that it is in, where it is in one."""
    top = name.split("/")[0]
    source = yard() / top
    (shutil.copytree if source.is_dir() else shutil.copy)(source, case.folder / top)
    return case.folder / name
