"""Build docs/RESULTS.md and the results table of README.md from experiments/*/ledger.jsonl.

    python tools/results.py            # write both
    python tools/results.py --check    # write nothing; exit 1 if one of them is not up to date

The prose is in tools/results.md.jinja; this file makes the tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import jinja2
import pandas as pd

from puridiver.grid.presets import PRESETS
from puridiver.grid.spec import Grid, find_grid
from puridiver.grid.table import build, markdown, paper_figure, paper_figures, read, summarise

ROOT = Path(__file__).resolve().parents[1]
PAGE, README, TEMPLATE = ROOT / "docs" / "RESULTS.md", ROOT / "README.md", ROOT / "tools" / "results.md.jinja"
BEGIN, END = "<!-- results:begin -->\n", "<!-- results:end -->"
NOISES = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")
NOT_RUN = "-"


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

    def beside_paper(self, preset: str, data: str, grid: str = "") -> str:
        """A table of the paper: our figures, and the paper's in brackets."""
        spec, ours = find_grid(preset, [data]), self.cells(grid or preset, data)
        lines = []
        for method in spec.methods:
            texts = []
            for column in spec.columns:
                paper = paper_text(spec, data, method.title, column.noise or "")
                texts.append(ours.get((method.title, column.title), NOT_RUN) + f" [{paper}]" * bool(paper))
            lines.append([method.title, *texts])
        return table(["method", *(column.noise or "" for column in spec.columns)], lines)

    def differences(self, grid: str, data: str, base: str) -> str:
        """Every method of a grid less one of them, by seeds that both have, with the corrected p."""
        found = build(self.of(grid, data), against=base).frame
        found = found.assign(text=[difference(line) for line in found.to_dict("records")])
        wide = found.pivot(index="method", columns="column", values="text").fillna(NOT_RUN)
        columns = in_order(wide.columns)
        means = summarise(self.of(grid, data).query("method == @base")).set_index("column")["mean"]
        first = [base, *(f"{means[column]:.1f}" if column in means else f"{means.mean():.1f}" for column in columns)]
        others = [[name, *wide.loc[name, columns]] for name in self.of(grid, data)["method"].unique() if name != base]
        return table(["method", *map(noise_of, columns)], [first, *others])

    def against_paper(self, data: str) -> str:
        """PuriDivER by each recipe less the paper, with the interval and p of Welch's t-test."""
        lines = []
        for recipe, grid in (("official", "table1"), ("puridiver", "table1 recipe=puridiver")):
            rows = self.of(grid, data).query("method == 'PuriDivER'")
            found = build(rows, against="paper").frame.set_index("column", drop=False)
            for line in found.loc[in_order(found.index)].to_dict("records"):
                known = pd.notna(line["p"])
                interval = f"{line['low_95']:+.1f} to {line['high_95']:+.1f}" if known else NOT_RUN
                p = p_text(line["p_corrected"]) if known else NOT_RUN
                figures = [f"{line['difference']:+.1f}", interval, p, str(line["pairs"])]
                lines.append([recipe, noise_of(line["column"]), *figures])
        return table(["recipe", "noise", "less the paper", "95 % interval", "p, corrected", "seeds"], lines)

    def headline(self) -> str:
        """The README's table: the paper, its rerun, and ours by recipe, with the strongest baselines."""
        lines = []
        for data, name in (("cifar10", "CIFAR-10"), ("cifar100", "CIFAR-100")):
            paper = paper_figures()["table1"]["data"][data]
            lines.append([name, "PuriDivER, the paper", *(paper["PuriDivER"][noise] for noise in NOISES)])
            if rerun := paper_figures()["rerun"]["data"].get(data, {}).get("PuriDivER"):
                texts = [rerun.get(noise, NOT_RUN) for noise in NOISES]
                lines.append([name, "PuriDivER, an independent rerun", *texts])
            lines.append([name, "RM + DivideMix, the paper", *(paper["RM + DivideMix"][noise] for noise in NOISES)])
            for title, grid, method in (
                ("NTD, ours", "beyond-table1", "NTD"),
                ("PuriDivER, ours, `official`", "table1", "PuriDivER"),
                ("**PuriDivER, ours, the default**", "table1 recipe=puridiver", "PuriDivER"),
            ):
                ours = self.cells(grid, data)
                texts = [ours.get((method, f"{data} {noise}"), NOT_RUN) for noise in NOISES]
                if set(texts) != {NOT_RUN}:
                    lines.append([name, title, *texts])
        return table(["data", "method", *NOISES], lines)

    def grid_table(self, study: str, data: str, grid: str = "") -> str:
        """The table of a study's own grid, without figures of the paper."""
        ours = self.cells(grid or study, data)
        methods, columns = dict.fromkeys(method for method, _ in ours), in_order(dict.fromkeys(c for _, c in ours))
        lines = [[method, *(ours.get((method, column), NOT_RUN) for column in columns)] for method in methods]
        return table(["method", *(column.partition(" ")[2] for column in columns)], lines)

    def measures(self, names: Sequence[str]) -> str:
        """Further figures of PuriDivER on CIFAR-10, by recipe and noise."""
        lines = []
        for recipe, grid in (("official", "table1"), ("puridiver", "table1 recipe=puridiver")):
            rows = self.of(grid, "cifar10").query("method == 'PuriDivER'")
            for name in names:
                means = rows.groupby("column")[name].mean() * (1 if name == "memory_diversity" else 100)
                places = 2 if name == "memory_diversity" else 1
                values = [means.get(f"cifar10 {noise}") for noise in NOISES]
                texts = [NOT_RUN if value is None or pd.isna(value) else f"{value:.{places}f}" for value in values]
                lines.append([recipe, name.replace("_", " "), *texts])
        return table(["recipe", "figure", *NOISES], lines)

    def not_run(self) -> list[str]:
        """The cells of the paper's tables without a run, a line for each table and data set."""
        found = []
        for name in ("table1", "table2", "table3", "table4", "disjoint"):
            for data in PRESETS[name].data:
                spec, ours = find_grid(name, [data]), self.cells(name, data)
                columns = spec.columns
                missing = {m.title: [c.noise for c in columns if (m.title, c.title) not in ours] for m in spec.methods}
                found.append(f"{spec.title.partition(':')[0]}, {data}: {missing_text(spec, missing)}")
        return found


def noise_of(column: str) -> str:
    """The noise of a column, or how many columns are taken together."""
    return column if column.startswith("all ") else column.rpartition(" ")[2]


def in_order(columns: Iterable[str]) -> list[str]:
    """Columns in the paper's order of noises, and those of several columns together last."""
    return sorted(columns, key=lambda column: [*NOISES, noise_of(column)].index(noise_of(column)))


def missing_text(spec: Grid, missing: dict[str, list[str | None]]) -> str:
    if all(len(noises) == len(spec.columns) for noises in missing.values()):
        return "nothing was run"
    whole = [title for title, noises in missing.items() if len(noises) == len(spec.columns)]
    parts = [
        f"{title} ({', '.join(map(str, noises))})" for title, noises in missing.items() if noises and title not in whole
    ]
    return "; ".join([*([f"{', '.join(whole)} (all noises)"] if whole else []), *parts]) or "every cell has a run"


def figure(line: dict[str, float]) -> str:
    """A cell of ours; the number of seeds where it is not three."""
    spread = "" if pd.isna(line["deviation"]) else f" ± {line['deviation']:.1f}"
    return f"{line['mean']:.1f}{spread}" + (f" ({line['seeds']})" if line["seeds"] != 3 else "")


def paper_text(spec: Grid, data: str, method: str, noise: str) -> str:
    mean, deviation = paper_figure(PRESETS[spec.name].paper, data, method, noise)
    return "" if pd.isna(mean) else f"{mean:.1f}" + ("" if pd.isna(deviation) else f" ± {deviation:.1f}")


def difference(line: dict[str, float]) -> str:
    error = "" if pd.isna(line["standard_error"]) else f" ± {line['standard_error']:.1f}"
    p = "" if pd.isna(line["p_corrected"]) else f", p {p_text(line['p_corrected'])}"
    return f"{line['difference']:+.1f}{error} ({line['pairs']}{p})"


def p_text(p: float) -> str:
    return "<0.01" if p < 0.005 else f"{p:.2f}"


def table(headings: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    return markdown(pd.DataFrame(lines, columns=list(headings)))


def pages() -> dict[Path, str]:
    """What the pages should hold."""
    results = Results(ROOT / "experiments")
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, trim_blocks=True)
    page = environment.from_string(TEMPLATE.read_text()).render(results=results)
    readme = README.read_text()
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise SystemExit(f"{README} lacks the markers {BEGIN.strip()} and {END}")
    return {PAGE: page, README: f"{before}{BEGIN}{results.headline()}\n{END}{after}"}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is not up to date")
    check = parser.parse_args(words).check
    outdated = {path: text for path, text in pages().items() if not path.exists() or path.read_text() != text}
    for path, text in outdated.items():
        if check:
            print(f"{path.relative_to(ROOT)} is not up to date: run python tools/results.py", file=sys.stderr)
        else:
            path.write_text(text)
            print(path.relative_to(ROOT))
    return int(check and bool(outdated))


if __name__ == "__main__":
    sys.exit(main())
