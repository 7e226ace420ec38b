"""Build docs/RESULTS.md and the results table of README.md from experiments/*/ledger.jsonl.

    python tools/results.py            # write both
    python tools/results.py --check    # write nothing; exit 1 if one of them is not up to date

The prose is in tools/results.md.jinja; this file makes the tables, and the pictures docs/tasks-*.png, at which --check
does not look.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import jinja2
import numpy as np
import pandas as pd

from puridiver.grid.presets import PRESETS
from puridiver.grid.spec import Grid, find_grid
from puridiver.grid.table import build, paper_figure, paper_figures, read, summarise
from puridiver.metrics import METRICS
from puridiver.report.style import Axes, Panel, line_style, picture

ROOT = Path(__file__).resolve().parents[1]
PAGE, README, TEMPLATE = ROOT / "docs" / "RESULTS.md", ROOT / "README.md", ROOT / "tools" / "results.md.jinja"
ADVICE = ROOT / "docs" / "should-i-use-this.md"
BEGIN, END = "<!-- results:begin -->\n", "<!-- results:end -->"
NOISES = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")
NOT_RUN = "-"
RECIPES = {"table1": "`official`", "table1 recipe=puridiver": "the default"}
DATA = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "webvision": "WebVision", "food101n": "Food-101N"}
CHANGES = {"recipe=puridiver": "**the default**", "recipe=paper": "as printed"}  # of a preset's grid, in words
LIGHT = tuple(
    f"light-networks-{part}" for part in ("final", "single", "memory", "backbone network=cifar100:frozen", "embeddings")
)
ORDINARY = {  # lines of the page on ordinary streams: the grids and the method of each
    **{
        name: (LIGHT, name)
        for name in (
            "naive", "plain replay", "class-balanced reservoir, plain", "NTD, plain", "the former default",
            "the default", "memory 100", "memory 250", "memory 1000", "memory 2000", "the default on a frozen backbone",
            "the default on its embeddings",
        )
    },
    "keep everything, plain ¹": (("ordinary-streams-final", "ordinary-streams-single"), "keep everything, plain"),
}  # fmt: skip
ARRIVALS = {"cifar10-grey-late": 3000, "cifar100-coarse": 3000, "cifar100-grey": 3000, "digits-single": 1397,
            "mnist-imbalance": 1929}  # fmt: skip
LATE_STREAM, LATE = "cifar10-grey-late", (3, 7)  # its classes that are first seen halfway
MORE = {  # methods of other grids that Table 1 shows, too
    "released": {"PuriDivER": "PuriDivER, `released`"},
    "label-margin-published": {"the default before": "PuriDivER, the former default"},
    "beyond-table1": {"NTD": "NTD, not in the paper"},
    "beyond-table1-replay": {
        name: f"{name}, not in the paper"
        for name in ("ER", "ER-ACE", "DER++", "MIR", "GSS", "CLIB", "AER + ABS", "CNLL")
    },
    "told-co-teaching": {"RSV + Co-teaching": "RSV + told Co-teaching", "GBS + Co-teaching": "GBS + told Co-teaching"},
}
LIKE = {  # each memory under `official` with plain training, then under the default recipe with each training
    memory: (released, ("like-for-like", f"{memory}, plain"), with_trainer)
    for memory, released, with_trainer in (
        ("RSV", ("table1", "RSV"), ("like-for-like", "RSV, PuriDivER's trainer")),
        ("GBS", ("table1", "GBS"), ("like-for-like", "GBS, PuriDivER's trainer")),
        ("RM", ("table1", "RM"), ("like-for-like", "RM, PuriDivER's trainer")),
        ("NTD", ("beyond-table1", "NTD"), ("like-for-like", "NTD, PuriDivER's trainer")),
        ("PuriDivER's memory", ("table3", "neither"), ("table1 recipe=puridiver", "PuriDivER")),
    )
}
WAYS = {  # the three runs of a line of LIKE, with the heading of each
    "official": "`official`, plain", "plain": "plain", "trainer": "PuriDivER's trainer",
}  # fmt: skip
STEPS = (  # from `official` to the default, in the order in which each part entered: what is new, grid, method
    ("", "table1", "PuriDivER"),
    ("online: four steps, ten times the rate, BatchNorm trains", "arrival-loss-published", "the default before"),
    ("the score counts the loss on arrival", "arrival-loss-published", "arrival by half, two views"),
    ("margin instead of loss, batches of 32, three snapshots", "label-margin-published", "the default"),
    ("weight decay 0.0005", "table1 recipe=puridiver", "PuriDivER"),
)


DRAWN = {  # lines of the figure over tasks
    "RSV": ("table1", "RSV"), "GBS": ("table1", "GBS"), "NTD": ("beyond-table1", "NTD"),
    "PuriDivER, official": ("table1", "PuriDivER"), "PuriDivER, the default": ("table1 recipe=puridiver", "PuriDivER"),
}  # fmt: skip


class Results:
    """The rows of all studies, and the tables that the page asks for by name."""

    def __init__(self, experiments: Path) -> None:
        self.rows = read(sorted(experiments.glob("*/ledger.jsonl")))
        self.runs = self.rows["id"].nunique()

    def of(self, grid: str, data: str) -> pd.DataFrame:
        """The rows of a grid on one data set, with the last accuracy in percent as `value`."""
        found = self.rows[(self.rows["grid"] == grid) & (self.rows["data"] == data)]
        return found.assign(value=100 * found["last_accuracy"])

    def cells(self, grid: str, data: str) -> dict[tuple[str, str], str]:
        """Our figure of each cell as text, by method and column."""
        lines = summarise(self.of(grid, data)).to_dict("records")
        return {(line["method"], line["column"]): figure(line) for line in lines}

    def lines(self, preset: str, data: str) -> list[list[str]]:
        """A table of the paper, ours with the paper's figure in brackets; then the grids that change it somehow."""
        spec, found = find_grid(preset, [data]), []
        changed = self.rows["grid"].str.startswith(f"{preset} ") & (self.rows["data"] == data)
        for grid in (preset, *sorted(self.rows["grid"][changed].unique())):
            ours, change = self.cells(grid, data), grid.removeprefix(preset).strip()
            for method in spec.methods:
                if change and not any(method.title == title for title, _ in ours):
                    continue
                texts = [ours.get((method.title, column.title), "").replace(" ", "") for column in spec.columns]
                if not change:
                    papers = [paper_text(spec, data, method.title, column.noise or "") for column in spec.columns]
                    texts = [f"{text} {paper}".strip() for text, paper in zip(texts, papers, strict=True)]
                found.append([", ".join(filter(None, [method.title, CHANGES.get(change, change)])), *texts])
        return found

    def table(self, *presets: str, data: str) -> str:
        """Tables of the paper on one data set as one table."""
        return compact(["method", *NOISES], [line for preset in presets for line in self.lines(preset, data)])

    def disjoint(self) -> str:
        """The supplement's table, with our runs on digits in front."""
        ours = self.cells("disjoint", "digits")
        digits = {method: text.replace(" ", "") for (method, column), text in ours.items() if "sym-40" in column}
        lines = [[first, digits.get(first, ""), *others] for first, *others in self.lines("disjoint", "cifar10")]
        return compact(["method", "digits sym-40", "CIFAR-10 sym-20", *NOISES[1:]], lines)

    def table1(self, data: str) -> str:
        """Table 1 on one data set, with what the paper does not have, and differences to the paper."""
        lines = self.lines("table1", data)
        for grid, words in MORE.items():
            ours = self.cells(grid, data)
            for method in dict.fromkeys(method for method, _ in ours if method in words):
                texts = [ours.get((method, f"{data} {noise}"), "").replace(" ", "") for noise in NOISES]
                lines.append([words[method], *texts])
        rerun = paper_figures()["rerun"]["data"][data]["PuriDivER"]
        texts = [rerun.get(noise, "").replace(" ", "").removesuffix("(3)") for noise in NOISES]
        lines.append(["PuriDivER, rerun by others", *texts])
        for grid, words in RECIPES.items():
            rows = self.of(grid, data).query("method == 'PuriDivER'")
            if len(rows):
                found = build(rows, against="paper").frame.set_index("column").to_dict("index")
                texts = [less_paper(found.get(f"{data} {noise}")) for noise in NOISES]
                lines.append([f"{words} less the paper", *texts])
        return compact(["method", *NOISES], lines)

    def like_for_like(self, *data: str) -> pd.DataFrame:
        """By stream, memory and seed: `official` and the default with plain training, and PuriDivER's trainer."""
        rows = self.rows.drop_duplicates(["grid", "method", "column", "seed"])
        value = 100 * rows.set_index(["grid", "method", "column", "seed"])["last_accuracy"].sort_index()
        shown = (rows["grid"] == "like-for-like") & rows["data"].isin(data)
        ways = {
            (column, memory): pd.DataFrame(
                {way: value[cell] if (cell := (*run, column)) in value.index else pd.Series(dtype=float)
                 for way, run in zip(WAYS, runs, strict=True)}
            )
            for column in sorted(rows.loc[shown, "column"].unique())
            for memory, runs in LIKE.items()
        }  # fmt: skip
        return pd.concat(ways, names=["column", "memory", "seed"])

    def like_for_like_table(self) -> str:
        values = self.like_for_like("cifar10", "cifar100").stack().dropna()
        cells = {
            key: figure({"mean": seeds.mean(), "deviation": seeds.std(), "seeds": len(seeds)}).replace(" ", "")
            for key, seeds in values.groupby(level=[0, 1, 3], sort=False)
        }
        lines = [
            [column, memory, *texts]
            for column, memory in dict.fromkeys(key[:2] for key in cells)
            if set((texts := [cells.get((column, memory, way), NOT_RUN) for way in WAYS])[1:]) != {NOT_RUN}
        ]
        return compact(["stream", "memory", *WAYS.values()], lines)

    def worth(self, data: str, way: str, less: str, *memories: str) -> str:
        """What one way of training gains over another, over these memories: mean ± standard error (pairs)."""
        table = self.like_for_like(data)
        table = table[table.index.isin(memories or LIKE, level="memory")]
        return difference(table[way] - table[less])

    def worth_of_memory(self, data: str, memory: str, less: str, way: str) -> str:
        """What one memory gains over another, trained in the same way."""
        values = self.like_for_like(data)[way].unstack("memory")
        return difference(values[memory] - values[less])

    def steps(self) -> str:
        """What each part gained when it entered, on the published streams of CIFAR-10."""
        columns = [f"cifar10 {noise}" for noise in NOISES]
        stages = [
            self.of(grid, "cifar10").query("method == @method").set_index(["column", "seed"])["value"]
            for _, grid, method in STEPS
        ]
        gains = {words: new - old for (words, *_), (old, new) in zip(STEPS[1:], pairwise(stages), strict=True)}
        gains["all of them"] = stages[-1] - stages[0]
        lines = [
            [words, *(f"{gain[column].mean():+.1f}" for column in columns), difference(gain)]
            for words, gain in gains.items()
        ]
        return compact(["what is new", *NOISES, "all five"], lines)

    def tasks(self, data: str) -> bytes:
        """The paper's Figure 2 on one data set: accuracy and purity of the memory after each task, mean and range."""

        def paint(column: str, metric: str, axes: Axes) -> None:
            for number, (title, (grid, method)) in enumerate(DRAWN.items()):
                rows = self.of(grid, data)
                rows = rows[(rows["method"] == method) & (rows["column"] == column)].dropna(subset=metric)
                if len(rows):
                    values = 100 * np.array(rows[metric].tolist())  # (seeds, tasks)
                    style, tasks = line_style(number), np.arange(1, values.shape[1] + 1)
                    axes.plot(tasks, values.mean(axis=0), label=title, **style)
                    axes.fill_between(tasks, values.min(axis=0), values.max(axis=0), color=style["color"], alpha=0.15)
            axes.set(xlabel="task", xticks=range(1, 6), ylim=(0, None))

        panels = [
            Panel(f"{words} at {noise}, %", partial(paint, f"{data} {noise}", metric))
            for noise in NOISES[:3]
            for words, metric in (("Accuracy", "task_accuracy"), ("Purity of the memory", "task_purity"))
        ]
        return picture(panels, "png", dpi=110)

    def worst_fall(self) -> str:
        """The largest fall of accuracy from one task to the next in the default's runs on the published streams."""
        rows = self.rows[self.rows["grid"] == "table1 recipe=puridiver"]
        falls = rows["task_accuracy"].map(lambda tasks: max(a - b for a, b in pairwise(tasks)))
        return f"{100 * falls.max():.1f} points in {len(rows)} runs"

    def measures(self, *names: str) -> str:
        """Further figures of PuriDivER on CIFAR-10, by recipe and noise."""
        lines, forms = [], ["{:.1%}" if METRICS[name].unit else "{:.2f}" for name in names]
        for grid, recipe in RECIPES.items():
            rows = self.of(grid, "cifar10").query("method == 'PuriDivER'")
            means = rows.groupby("column")[list(names)].mean().reindex(f"cifar10 {noise}" for noise in NOISES)
            shown = (" ".join(map(str.format, forms, line)) for line in means.to_numpy())
            lines.append([recipe, *(text.replace("%", "").replace("nan", NOT_RUN) for text in shown)])
        return compact(["method", *NOISES], lines)

    def headline(self) -> str:
        """The README's table: the paper, its rerun, and ours by recipe, with the strongest baselines."""
        lines = []
        for data in ("cifar10", "cifar100"):
            name = DATA[data]
            paper = paper_figures()["table1"]["data"][data]
            lines.append([name, "PuriDivER, the paper", *(paper["PuriDivER"][noise] for noise in NOISES)])
            if rerun := paper_figures()["rerun"]["data"].get(data, {}).get("PuriDivER"):
                texts = [rerun.get(noise, NOT_RUN) for noise in NOISES]
                lines.append([name, "PuriDivER, rerun by others", *texts])
            lines.append([name, "RM + DivideMix, the paper", *(paper["RM + DivideMix"][noise] for noise in NOISES)])
            for title, grid, method in (
                ("NTD, ours", "beyond-table1", "NTD"),
                ("`official`, ours", "table1", "PuriDivER"),
                ("**default, ours**", "table1 recipe=puridiver", "PuriDivER"),
            ):
                ours = self.cells(grid, data)
                texts = [ours.get((method, f"{data} {noise}"), NOT_RUN) for noise in NOISES]
                if set(texts) != {NOT_RUN}:
                    lines.append([name, title, *texts])
        return compact(["data", "method", *NOISES], [[text.replace(" ± ", "±") for text in line] for line in lines])

    def ordinary(self) -> str:
        """The final half of the ordinary streams: last, anytime and live accuracy, and CPU time."""
        streams, lines = sorted(ARRIVALS), []
        for title, (grids, method) in ORDINARY.items():
            own = self.rows[self.rows["grid"].isin(grids) & (self.rows["method"] == method)]
            if own.empty:
                continue
            means = own.groupby("data")[["last_accuracy", "anytime_area", "live_accuracy"]].mean() * 100
            cells = [" / ".join(f"{x:.1f}" for x in means.loc[s]) if s in means.index else NOT_RUN for s in streams]
            online, training = (own["phase_seconds"].str[phase].fillna(0) for phase in ("observe", "consolidate"))
            milliseconds = (1000 * online / own["data"].map(ARRIVALS)).mean()
            of_late, noisy = own[own["data"] == LATE_STREAM], own[own["stream_noise"] > 0]
            late = np.array(of_late["class_accuracy"].tolist())[:, LATE].mean()  # (runs, classes)
            more = [f"{100 * late:.1f}", f"{100 * noisy['memory_purity'].mean():.1f}", f"{milliseconds:.1f}"]
            lines.append([title, *cells, *more, f"{online.mean():.0f} + {training.mean():.0f}"])
        return compact(["method", *streams, "late classes", "purity", "ms an image", "CPU s"], lines)

    def not_run(self) -> list[str]:
        """The cells of the paper's tables without a run: whole tables first, then methods, then single cells."""
        whole, found = [], []
        for name in ("table1", "table2", "table3", "table4", "disjoint"):
            for data in PRESETS[name].data:
                spec, ours = find_grid(name, [data]), self.cells(name, data)
                title, parts = f"{spec.title.partition(':')[0]} on {DATA[data]}", []
                missing = {m.title: [c.noise for c in spec.columns if (m.title, c.title) not in ours]
                           for m in spec.methods}  # fmt: skip
                if not ours:
                    whole.append(title)
                    continue
                if methods := [method for method, noises in missing.items() if len(noises) == len(spec.columns)]:
                    parts.append(", ".join(methods))
                parts += [f"{m} ({', '.join(map(str, n))})" for m, n in missing.items() if n and m not in methods]
                found += [f"{title}: {'; '.join(parts)}"] * bool(parts)
        return [f"No cell of: {'; '.join(whole)}"] * bool(whole) + found


def figure(line: dict[str, float]) -> str:
    """A cell of ours; the number of seeds where it is not three."""
    spread = "" if pd.isna(line["deviation"]) else f" ± {line['deviation']:.1f}"
    return f"{line['mean']:.1f}{spread}" + (f" ({line['seeds']})" if line["seeds"] != 3 else "")


def difference(values: pd.Series) -> str:
    """Mean ± standard error of differences and their number."""
    values = values.dropna()
    return f"{values.mean():+.1f} ± {values.sem():.1f} ({len(values)})"


def paper_text(spec: Grid, data: str, method: str, noise: str) -> str:
    mean, deviation = paper_figure(PRESETS[spec.name].paper, data, method, noise)
    return "" if pd.isna(mean) else f"[{mean:.1f}" + ("]" if pd.isna(deviation) else f"±{deviation:.1f}]")


def less_paper(line: dict[str, float] | None) -> str:
    """Our mean less the paper's, with a star where Holm's corrected p is at most 0.05."""
    return NOT_RUN if line is None else f"{line['difference']:+.1f}" + r"\*" * (line["p_corrected"] <= 0.05)


def compact(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table without padding."""
    return "\n".join("|" + "|".join(line) + "|" for line in [headings, ["---"] * len(headings), *lines])


def pages() -> dict[Path, str]:
    """What the pages should hold."""
    results = Results(ROOT / "experiments")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    page = environment.from_string(TEMPLATE.read_text()).render(results=results, names=DATA)
    return {PAGE: page, README: filled(README, results.headline()), ADVICE: filled(ADVICE, results.ordinary())}


def filled(path: Path, table: str) -> str:
    """A page with the table between its markers."""
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f"{path} lacks the markers {BEGIN.strip()} and {END}")
    return f"{before}{BEGIN}{table}\n{END}{after}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is not up to date")
    check = parser.parse_args(words).check
    outdated = {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}
    for data in () if check else ("cifar10", "cifar100"):
        (PAGE.parent / f"tasks-{data}.png").write_bytes(Results(ROOT / "experiments").tasks(data))
    for path, text in outdated.items():
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date: run python tools/results.py", file=sys.stderr)
        else:
            path.write_text(text)
            print(path.relative_to(ROOT))
    return int(check and bool(outdated))


if __name__ == "__main__":
    sys.exit(main())
