"""Grids that are run as one into a folder: by `puridiver grid`, and by a program that calls `puridiver.run_grid`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from puridiver import plugins as own_methods
from puridiver.errors import PuridiverError
from puridiver.grid.cells import CHANGES, Grid, cells
from puridiver.grid.chosen import chosen_grid
from puridiver.grid.define import checked_options, grid_of_table, with_methods, with_noises
from puridiver.grid.engines.base import Engine, Event
from puridiver.grid.engines.choose import Wishes, choose_engine
from puridiver.grid.folder import LOGS, GridFolder
from puridiver.grid.plan import Planned, Sources, done_rows, estimated_seconds, plan
from puridiver.grid.prepare import prepare_diversity
from puridiver.grid.runner import Outcome, Runner, Silent, State, Watcher, adopt, look
from puridiver.runs import folder as runs

FAILURES_NAMED = 3


@dataclass
class Campaign:
    """Grids with what is changed in all their cells, the folder they go to, and how they are run.

    The device is the cells': what the wishes say of it is not looked at.
    """

    grids: Sequence[Grid]
    folder: GridFolder
    changes: Mapping[str, Any] = field(default_factory=dict)
    wishes: Wishes = field(default_factory=Wishes)
    any_code: bool = False
    retry_failed: bool = False
    limit: int | None = None
    sources: Sources = field(default_factory=Sources)

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"limit should be at least 1, but got {self.limit}")

    @contextmanager
    def prepared(self) -> Iterator[tuple[Engine, list[Planned]]]:
        """What will run the cells, and the cells with their identities."""
        wanted = [cell for grid in self.grids for cell in cells(grid, self.changes)]
        wishes = dataclasses.replace(self.wishes, device=wanted[0].config.device) if wanted else self.wishes
        with closing(choose_engine(wishes, len(wanted), self.folder.path / LOGS, self.sources)) as engine:
            yield engine, plan(wanted, self.sources, engine.runtime)

    def look(self, planned: Sequence[Planned]) -> State:
        """What of the plan is done; the folder, which must be held, gets the titles of the grids' methods."""
        adopt(planned, self.folder)
        state = look(planned, self.folder, self.any_code, self.retry_failed)
        titles = {method.title for grid in self.grids for method in (grid.whole or grid).methods}
        self.folder.keep_titles(planned, state.done, titles)
        return state

    def go(self, engine: Engine, state: State, watcher: Watcher) -> Outcome:
        """Run what is left of it. The folder must be held."""
        waiting = state.waiting[: self.limit]
        watcher.begin(len(state.done), waiting, estimated_seconds(waiting, self.folder.rows(), engine.workers))
        if engine.local:
            prepare_diversity(waiting, self.sources, watcher.preparing)
        return Runner(self.folder, engine, watcher).run(waiting, state.failed)

    def rows(self, planned: Sequence[Planned]) -> list[dict[str, Any]]:
        """The rows of the planned runs that are done, in the order of the plan."""
        done = done_rows(planned, self.folder.rows(), self.any_code)
        return [done[each.key] for each in planned if each.key in done]


class _Telling(Silent):
    """Hands on each row as its run finishes."""

    def __init__(self, on_row: Callable[[dict[str, Any]], object]) -> None:
        self.on_row = on_row

    def happened(self, event: Event, planned: Planned) -> None:
        if event.kind == "finished":
            self.on_row(json.loads(runs.to_json(event.detail)))  # as the ledger has it, in which nan is null


def run_grid(
    grid: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    data: Sequence[str] = (),
    seeds: Sequence[int] = (),
    methods: Sequence[str] = (),
    noises: Sequence[str] = (),
    plugins: Sequence[str] = (),
    any_code: bool = False,
    retry_failed: bool = False,
    limit: int | None = None,
    engine: str = "auto",
    lanes: int | None = None,
    processes: int | None = None,
    on_row: Callable[[dict[str, Any]], object] | None = None,
    **changes: Any,
) -> list[dict[str, Any]]:
    """Run what is left of a grid and return the rows of its finished runs, as `puridiver grid` would have them.

    Parameters
    ----------
    grid
        A preset ("table1"), a .toml file, a part of one ("table1?noises=sym-40"), or what such a file holds as a
        dictionary: {"methods": ["rsv+plain"], "seeds": [0, 1], "memory": 100, ...}.
    out
        The folder, which keeps everything: called again, what it has is not run again.
    data, seeds, methods, noises, plugins, any_code, retry_failed, limit, engine, lanes, processes
        As the options of `puridiver grid` of these names; one alone need not be a list. Methods that are registered in
        the program itself, and not in a plugin's file, are known to lanes (engine="lanes") alone: other engines start
        processes.
    on_row
        Called with each row as its run finishes.
    changes
        Settings of a run that are replaced in all cells, such as epochs=15 or options={"eta": 0.5}.

    Raises
    ------
    PuridiverError
        Where cells have failed, once all others are done: the rows of those are in the folder.
    """
    for place in _listed(plugins):
        own_methods.add(place)
    data, seeds, methods, noises = map(_listed, (data, seeds, methods, noises))
    chosen = _chosen(grid, data, seeds, methods, noises, official=changes.get("splits") is not None)
    campaign = Campaign(
        chosen, GridFolder(Path(out)), _checked(changes, chosen), Wishes(engine, lanes, processes), any_code,
        retry_failed, limit,
    )  # fmt: skip
    with campaign.prepared() as (chosen_engine, planned), campaign.folder.locked():
        outcome = campaign.go(chosen_engine, campaign.look(planned), _Telling(on_row) if on_row else Silent())
        rows = campaign.rows(planned)
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.failures:
        raise PuridiverError(_failed(outcome, len(rows), campaign.folder.path))
    return rows


def _listed(values: Any) -> list[Any]:
    """One alone counts as a list of it; numbers of NumPy's become Python's."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    return [values] if isinstance(values, str | int | Path) else list(values)


def _chosen(
    grid: str | Path | Mapping[str, Any], data: Sequence[str], seeds: Sequence[int], methods: Sequence[str],
    noises: Sequence[str], official: bool,
) -> list[Grid]:  # fmt: skip
    if isinstance(grid, Mapping):
        found = [grid_of_table(grid, Path("grid"), data, seeds)]
    else:
        found = [chosen_grid(str(grid), data, seeds, official)]
    found = with_methods(found, methods) if methods else found
    return with_noises(found, noises) if noises else found


def _checked(changes: Mapping[str, Any], grids: Sequence[Grid]) -> dict[str, Any]:
    for name in changes:
        if name not in (*CHANGES, "options"):
            raise ValueError(
                f"a setting of all cells should be one of {', '.join(CHANGES)} or options, but got {name!r}; "
                "others belong into the grid"
            )
    found = {name: value for name, value in changes.items() if value is not None}
    if "options" in found:
        found["options"] = checked_options(dict(found["options"]))
        _check_reached(found, grids)
    return found


def _check_reached(changes: Mapping[str, Any], grids: Sequence[Grid]) -> None:
    """An option that a method declares itself is of some method here: else a slip would change nothing, unseen."""
    reached = {name for grid in grids for cell in cells(grid, changes) for name in cell.config.options}
    for name in changes["options"]:
        if name not in reached:
            raise ValueError(f"{name} reaches no method of the grid: none of them is {name.partition('.')[0]}")


def _failed(outcome: Outcome, done: int, folder: Path) -> str:
    entries = list(outcome.failures.values())
    told = "; ".join(f"{entry['name']}: {entry['error'].splitlines()[0]}" for entry in entries[:FAILURES_NAMED])
    more = f"; and {len(entries) - FAILURES_NAMED} more" if len(entries) > FAILURES_NAMED else ""
    return (
        f"{len(entries)} cell{'s' * (len(entries) > 1)} of the grid failed ({told}{more}); {done} are done and lie in "
        f"{folder}, with tracebacks in failures.jsonl; retry_failed=True runs what failed again"
    )
