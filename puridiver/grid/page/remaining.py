"""The rows of a ledger that are in no table, so that nothing is hidden; and how to derive any row again."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from puridiver.grid.page.sections import SHOWN, ours, told
from puridiver.grid.page.tables import spelt_out
from puridiver.grid.presets import FIVE
from puridiver.grid.table import make_entry
from puridiver.grid.variants import Row, row_kind
from puridiver.recipes import DEFAULT, PUBLISHED, RECIPES
from puridiver.report.ledger import device_type
from puridiver.report.table import as_markdown, labels_of, settings_of, summarise
from puridiver.streams.names import LISTED_KIND, WORD
from puridiver.streams.noise import noise_name

# Flags of a run's command that its row does not tell otherwise.
TOLD_BY_COMMAND = ("--holdout", "--stream-limit", "--test-limit")
CURVE = "--anytime-points"  # says where the accuracy over the stream was taken, unless where it usually is
PREDICTION = "online_prediction"
VERSIONS = ("puridiver", "torch", "python", "numpy")


def flags_of(row: Row) -> str:
    """What the row's command says of validation images and of shortening."""
    words = shlex.split(str(row.get("command", "")))
    told_there = ((flag, value) for flag, value in itertools.pairwise(words) if flag in TOLD_BY_COMMAND)
    return "".join(f", {flag.removeprefix('--')} {value}" for flag, value in told_there)


def protocol(row: Row) -> str:
    """What runs must share to be read side by side, in words."""
    orders = {WORD: "published streams", LISTED_KIND: "published streams in the order of their files"}
    stream = orders.get(row_kind(row), f"stream {row['stream']}")
    shortened = "**shortened**, " if row["shortened"] else ""
    return (
        f"{shortened}{row['data']}, {stream}, {len(row['task_accuracy'])} tasks, memory {row['memory']}, "
        f"{row['network']}, judged on {row['evaluated_on']}{flags_of(row)}, {row.get('precision', 'float32')} on a "
        f"{'GPU' if device_type(row) == 'cuda' else 'CPU'}{'' if row.get('graphs', True) else ' without graphs'}"
    )


def grouped(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> list[list[Row]]:
    """The rows in groups, in order of first appearance."""
    groups: dict[Hashable, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return list(groups.values())


# Runs in no table --------------------------------------------------------------------------------------------------


def other_runs(rows: Sequence[Row]) -> str:
    """A table for each protocol; runs of different code are never in one line."""
    parts = []
    for group in grouped(rows, protocol):
        lines = summarise([dict(row) for row in group])
        repeated = len(group) - sum(int(line[-2]) for line in lines)
        note = f" Of {repeated} repeated with the same code and seed the later one is shown." if repeated else ""
        parts.append(f"{_count(group)}: {protocol(group[0])}.{note}\n\n{as_markdown(lines)}")
    return "\n\n".join(parts) or "None."


def _count(rows: Sequence[Row]) -> str:
    return "1 run" if len(rows) == 1 else f"{len(rows)} runs"


# Validation --------------------------------------------------------------------------------------------------------


def validation(rows: Sequence[Row]) -> str:
    """Settings by noises for each protocol, from images that were kept out of the stream."""
    return "\n\n".join(_validation_table(group) for group in grouped(rows, protocol)) or "None yet."


def validation_on_the_way(rows: Sequence[Row]) -> str:
    """The same by anytime accuracy and by what predicts between two memory trainings; empty without two ways.

    The last accuracy does not depend on that. Runs with their curve at other points than usual are left out.
    """
    judged = [row for row in rows if row["evaluated_on"] == "validation" and row.get("anytime_area") is not None]
    usual = [row for row in judged if CURVE not in row.get("command", "")]
    if len({prediction(row) for row in usual}) < 2:
        return ""
    told = [_with_prediction(spelt_out(row), prediction(row)) for row in usual]
    return "\n\n".join(_validation_table(group, "anytime_area") for group in grouped(told, protocol))


def _with_prediction(row: Row, value: str) -> Row:
    return {**row, "options_changed": {**row["options_changed"], PREDICTION: value}}


def prediction(row: Row) -> str:
    """What predicted between two memory trainings of a run."""
    then = {} if row["recipe"] != DEFAULT else row.get("default_changes", {})
    return str({PREDICTION: getattr(RECIPES[PUBLISHED], PREDICTION), **then, **row["options_changed"]}[PREDICTION])


def _validation_table(rows: Sequence[Row], figure: str = "last_accuracy") -> str:
    found = {_noise(row) for row in rows}
    noises = [*(noise for noise in FIVE if noise in found), *sorted(found - set(FIVE))]
    lines, older = [], 0
    for group in grouped(rows, _but_noise):
        by_noise = {noise: {row["seed"]: row for row in group if _noise(row) == noise} for noise in noises}
        older += len(group) - sum(len(seeds) for seeds in by_noise.values())
        lines.append((_setting(group[0]), *_by_noise(by_noise, figure)))
    set_aside = f" {_count(rows[:older])} set aside for a later one of the same settings and seed." if older else ""
    headings = ("setting", *noises, "mean of the noises")
    return f"{_count(rows)}: {protocol(rows[0])}.{set_aside}\n\n{as_markdown(lines, headings)}"


def _by_noise(by_noise: Mapping[str, Mapping[int, Row]], figure: str) -> list[str]:
    """Each noise's figures, and their mean where all were run."""
    entries = [make_entry(list(seeds.values()), figure=figure) for seeds in by_noise.values()]
    means = [entry.mean for entry in entries if entry.mean is not None]
    mean = f"{sum(means) / len(means):.1f}" if len(means) == len(entries) else "-"
    return [*map(ours, entries), mean]


def _noise(row: Row) -> str:
    return noise_name(row["noise"], row["noise_rate"])


def _but_noise(row: Row) -> str:
    """Everything by which settings are told apart, but the noise; the hash of settings has the noise in it."""
    return settings_of({**row, "noise": "", "noise_rate": 0, "noise_map": None, "settings_hash": None})


def _setting(row: Row) -> str:
    """What the table's lines differ in: epochs once, and no precision, which all of a table share."""
    changed = {name: value for name, value in row["options_changed"].items() if name != "epochs"}
    _, sampler, trainer, recipe, _ = labels_of({**row, "options_changed": changed, "precision": "float32"})
    return f"{sampler} + {trainer}, {recipe}, {row['epochs']} epochs"


# Where it all comes from -------------------------------------------------------------------------------------------


def from_plugins(rows: Sequence[Row]) -> list[str]:
    """What is to be known of methods that are not the package's; nothing where there are none."""
    names = sorted({name for row in rows for name in row.get("plugins", {})})
    if not names:
        return []
    return [
        f"Not of the package: {', '.join(names)}. Its file is named by the command without its folder "
        "(`--plugin FILE`); the row's `plugins` has a hash of its name and content."
    ]


def origins(rows: Sequence[Row]) -> str:
    """Commits and versions of all rows."""
    lines = [
        (
            str(group[0].get("commit") or "not told")[:SHOWN],
            str(len(group)),
            *(str(group[0].get("versions", {}).get(name, "not told")) for name in VERSIONS),
            told(group, "device"),
        )
        for group in grouped(rows, _origin)
    ]
    return as_markdown(lines, ("commit", "rows", *VERSIONS, "device"))


def _origin(row: Row) -> Hashable:
    return (row.get("commit"), *sorted((name, str(version)) for name, version in row.get("versions", {}).items()))
