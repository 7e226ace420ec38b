"""Hostile values, and files that are damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from attacks.cases import BATCH, LABELS, Case

TEXTS = [
    "", " ", "a\0", "\x1b[2J\x1b[31m", "a[/b]", "=HYPERLINK(1)", "../../x", "/dev/zero", "nan", "-1", "1e309", "٣",
    "é" * 300, "x" * 200_000, "{}", "[0]", "\ud800", "1" * 5_000, "{seed}", "%s%n", "line\nline", "0x10", "--",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, -1, 2**31, 2**53 + 1, 2**63, 10**400, 0.5, 1e308, float("nan"), float("inf"), [], {}, [[]], [None],
    [1, "a"], {"a": {}}, "cat", *TEXTS,
]  # fmt: skip
ARRAYS: list[Callable[[], Any]] = [
    lambda: BATCH.astype(complex), lambda: np.zeros(3, "datetime64[D]"), lambda: np.ma.masked_array([1, 2, 3]),
    lambda: np.array(["a", None, 3], object), lambda: BATCH + np.nan, lambda: BATCH - 1.0, lambda: BATCH[::-1],
    lambda: BATCH.astype(">f4"), lambda: np.float16(0.5), lambda: BATCH[:0], lambda: np.zeros((3, 8, 8, 3), np.uint8),
    lambda: np.zeros((3, 8), bool), lambda: BATCH.astype(np.longdouble), lambda: np.array("a"),
    lambda: np.zeros(3, "i4,f8"), lambda: torch.zeros(3, 8, 8, 1).to_sparse(),
    lambda: torch.zeros(3, 8, 8, 1).to("meta"),
    lambda: torch.zeros(3, 8, 8, 1, requires_grad=True), lambda: torch.zeros(3, 8, 8, 1, dtype=torch.bfloat16),
    lambda: torch.zeros((), dtype=torch.int8), lambda: torch.tensor([1, 2, 3], dtype=torch.int16), lambda: range(3),
    lambda: [torch.zeros(8, 8, 1), np.zeros((8, 8))], lambda: iter([1, 2, 3]), lambda: {1, 2, 3}, lambda: b"cat",
    object, lambda: [2**63, -1, 0], lambda: pd.Series(LABELS), lambda: np.bytes_(b"x"), lambda: ["x" * 100_000] * 3,
    lambda: [np.str_("a"), np.str_("a\0"), "b"], lambda: np.array([1.0, 2.0, np.inf]),
]  # fmt: skip


def odd(case: Case) -> Any:
    return case.one(ARRAYS)() if case.chance(0.7) else case.one(VALUES)


def damaged(case: Case, content: bytes) -> bytes:
    """Bytes, damaged in one to three places."""
    found = bytearray(content)
    for _ in range(1 + case.below(3)):
        at, n = case.below(len(found) + 1), 1 + case.below(8)
        text = case.one(TEXTS)[:5_000].encode("utf-8", "surrogatepass")
        flipped = bytes(byte ^ (1 << case.below(8)) for byte in found[at : at + 1])
        instead = [b"", case.rng.bytes(n), b"\xff" * n, text, bytes(found[at : at + 40 * n]) * 2, flipped]
        end = len(found) if case.chance(0.1) else at + n
        found[at:end] = case.one(instead)
    return bytes(found)


def odd_json(case: Case, value: Any) -> Any:
    """A JSON value, one part of it replaced, removed or added."""
    if isinstance(value, dict) and value and case.chance(0.85):
        key, kind = case.one(sorted(value)), case.rng.random()
        if kind < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key if kind < 0.95 else "more": odd_json(case, value[key])}
    if isinstance(value, list) and value and case.chance(0.7):
        at = case.below(len(value))
        return [*value[:at], odd_json(case, value[at]), *value[at + 1 :]]
    return json.loads("[" * 500 + "]" * 500) if case.chance(0.02) else case.one(VALUES)


def spoil(case: Case, path: Path) -> None:
    """Damage a file: its bytes or, where it is JSON, a part of its content."""
    if path.suffix in (".json", ".jsonl") and case.chance(0.6):
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        at = case.below(len(lines))
        lines[at] = json.dumps(odd_json(case, json.loads(lines[at])))
        path.write_text("\n".join(lines))
    elif path.stem == "image" and case.chance(0.05):
        path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(x) (w) file\n")
    else:
        path.write_bytes(damaged(case, path.read_bytes()))
