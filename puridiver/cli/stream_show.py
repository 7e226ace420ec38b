"""`puridiver stream show`: a manifest in a line, as a table, as JSON and as a picture."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import console as make_console

if TYPE_CHECKING:
    from puridiver.streams import StreamManifest
    from puridiver.streams.checks import IntArray


def summary(manifest: StreamManifest) -> dict[str, Any]:
    """All of a manifest but the long lists, as JSON can hold it."""
    content = manifest.to_dict()
    for name in ("holdout", "order", "labels"):
        del content[name]
    return {
        **content,
        "samples": len(manifest),
        "holdout_samples": len(manifest.holdout),
        "content_hash": manifest.content_hash,
    }


def describe(manifest: StreamManifest) -> str:
    """One line on a stream."""
    from puridiver.streams import noise_name

    blur = f"-{manifest.minor_share * 100:g}" if manifest.minor_share else ""
    noise, rate = noise_name(manifest.noise, manifest.noise_rate), manifest.realised_noise
    realised = "wrong labels not known" if rate is None else f"{rate:.2%} realised"
    told = f"noise {noise} ({realised})"
    if rate and manifest.noise == "none":
        told = f"labels as they came ({rate:.2%} wrong of those whose true label is known)"
    tasks = "1 task" if manifest.n_tasks == 1 else f"{manifest.n_tasks} tasks"
    tailed = f", imbalance {manifest.imbalance:g}" if manifest.imbalance < 1 else ""
    made = f"{manifest.kind}{blur}{tailed}"
    seed = "" if manifest.kind == "custom" else f", seed {manifest.seed}"  # it has none
    return f"{manifest.source}, {made}, {len(manifest):,} samples in {tasks}, {told}{seed}"


def show_stream(args: argparse.Namespace) -> int:
    from puridiver.streams import StreamManifest

    if args.picture is not None:
        from puridiver.report.style import check_installed, check_kind

        check_kind(args.picture)  # before anything is read or printed
        check_installed("plot", "matplotlib")
    manifests = [StreamManifest.load(path) for path in args.files]
    if args.json:
        found = [_as_json(path, manifest) for path, manifest in zip(args.files, manifests, strict=True)]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    else:
        for path, manifest in zip(args.files, manifests, strict=True):
            if len(manifests) > 1:
                print(f"{path}:")
            _print_table(manifest)
    if args.picture is not None:
        _draw(args.files, manifests, args.picture)
    return 0


def _as_json(path: Path, manifest: StreamManifest) -> dict[str, Any]:
    counts = manifest.counts().tolist()
    return {"file": str(path), **summary(manifest), "counts": counts, "late_minor": late_minor(manifest)}


def _draw(paths: Sequence[Path], manifests: Sequence[StreamManifest], out: Path) -> None:
    from puridiver.report.stream_mix import mix_picture
    from puridiver.report.style import save

    print(save(mix_picture(list(zip(_titles(paths), manifests, strict=True))), out), file=sys.stderr)


def _titles(paths: Sequence[Path]) -> list[str]:
    """The files' names, with as many of their folders as it takes to tell them apart."""
    most = max(len(path.parts) for path in paths)
    tails = ([Path(*path.with_suffix("").parts[-n:]).as_posix() for path in paths] for n in range(1, most + 1))
    return next((found for found in tails if len(set(found)) == len(set(paths))), [str(path) for path in paths])


def _print_table(manifest: StreamManifest) -> None:
    from rich.table import Table
    from rich.text import Text

    console = make_console(highlight=False)
    if not console.is_terminal:  # a file has no edge to wrap at
        console.width = 40 + 12 * manifest.n_tasks
    console.print(describe(manifest), markup=False, soft_wrap=True)
    if manifest.noise_map:
        names = manifest.class_names
        flips = ", ".join(f"{names[a]} to {names[b]}" for a, b in sorted(manifest.noise_map.items()))
        console.print(f"wrong labels turn {flips}", markup=False, soft_wrap=True)
    if manifest.noise_matrix:
        right = [f"{name} {row[label]:.3g}" for label, (name, row) in enumerate(_named_rows(manifest))]
        console.print(f"chance of a right label by the noise matrix: {', '.join(right)}", markup=False, soft_wrap=True)
    table = Table(title="samples by given label (* major)", title_justify="left")
    table.add_column("class")
    for task in range(manifest.n_tasks):
        table.add_column(f"task {task + 1}", justify="right")
    for label, row in enumerate(manifest.counts().tolist()):
        major = [label in group for group in manifest.major_classes]
        cells = [f"{n:,}*" if is_major else f"{n:,} " for n, is_major in zip(row, major, strict=True)]
        table.add_row(Text(manifest.class_names[label]), *cells)
    table.add_section()
    table.add_row("all", *(f"{n:,} " for n in manifest.counts().sum(0).tolist()))
    table.add_row("minor share", *map(_percent, _minor_shares(manifest)))
    table.add_row("... of the last tenth", *map(_percent, late_minor(manifest)))
    console.print(table)
    console.print(f"hash {manifest.content_hash}", soft_wrap=True)


def _named_rows(manifest: StreamManifest) -> list[tuple[str, tuple[float, ...]]]:
    return list(zip(manifest.class_names, manifest.noise_matrix or (), strict=True))


def _minor_shares(manifest: StreamManifest) -> list[float | None]:
    """The share of each task whose given label is not major in it; None for a task without samples."""
    tasks = [manifest.labels[manifest.task_slice(task)] for task in range(manifest.n_tasks)]
    return [_share_outside(labels, major) for labels, major in zip(tasks, manifest.major_classes, strict=True)]


def late_minor(manifest: StreamManifest) -> list[float | None]:
    """The minor share in the last tenth of each task: far from that of the whole, classes do not mix within tasks."""
    tasks = [manifest.labels[manifest.task_slice(task)] for task in range(manifest.n_tasks)]
    last = [labels[-max(1, len(labels) // 10) :] for labels in tasks]
    return [_share_outside(labels, major) for labels, major in zip(last, manifest.major_classes, strict=True)]


def _share_outside(labels: IntArray, classes: Sequence[int]) -> float | None:
    found = labels.tolist()
    return sum(label not in classes for label in found) / len(found) if found else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
