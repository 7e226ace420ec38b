"""The page where published streams were run in both orders: shuffled, and as their files list them."""

from __future__ import annotations

from puridiver.grid.page.page import headline_block
from tests.grid.page.samples import full_run, line, page_of, part


def test_a_line_that_one_order_alone_has_does_not_stop_the_page() -> None:
    """A method that was told the noise has a line only where it was run."""
    told = {"sampler": "rsv", "trainer": "plain", "told_noise": True}
    for one, other in ((":shuffled", ":listed"), (":listed", ":shuffled")):
        rows = [full_run(1, 0.5, stream=f"official:sym40:1{other}")]
        rows += [
            full_run(1, 0.5, noise, stream=f"official:{noise.replace('-', '')}:1{one}", **told)
            for noise in ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")
        ]
        assert "| RSV, told the noise |" in page_of(rows)
        assert "RSV, told the noise" in headline_block(rows)


def test_tables_in_the_order_of_the_files_show_what_was_run_in_it() -> None:
    listed = {"stream": "official:sym40:1:listed"}
    shuffled, whole = full_run(1, 0.5), full_run(1, 0.5, **listed)
    page = page_of([shuffled, whole])
    table1 = part(page, "CIFAR-10 in the order of the files, Table 1")
    assert line(table1, "PuriDivER, recipe official")[2] == "50.0 ± - (1) / 59.2 ± 0.3"
    assert "| RSV |" not in table1
    assert "| RSV | not run" in part(page, "CIFAR-10, Table 1")
    assert "## CIFAR-10 in the order of the files, Table 4" not in page  # Table 1 has its only line
    static = full_run(1, 0.4, **listed, options_changed={"alpha": 0.3})
    for rows in ([shuffled, static], [shuffled, whole, static]):
        table = part(page_of(rows), "CIFAR-10 in the order of the files, Table 4: static and adaptive alpha")
        assert line(table, "alpha 0.3")[2].startswith("40.0")
        assert "alpha 0.5" not in table
    row = full_run(1, 0.4, **listed, options_changed={"relabel_set": "low_uncertainty"})
    rows = part(page_of([shuffled, row]), "CIFAR-10 in the order of the files, what each row of FIDELITY.md is worth")
    assert line(rows, "official as it is")[1] == "not run"
    assert line(rows, "row 4: what is re-labelled")[1:4] == ["40.0 ± - (1)", "-", "nothing to compare with"]
    assert "row 5" not in rows
    without = page_of([whole])  # the only order: everything stands there
    assert "| RSV | not run" in part(without, "CIFAR-10 in the order of the files, Table 1")


def test_what_the_order_of_the_streams_changes_is_told_by_the_seeds_run_both_ways() -> None:
    shuffled = [full_run(seed, 0.5) for seed in (1, 2, 3)]
    listed = [full_run(1, 0.52, stream="official:sym40:1:listed"), full_run(2, 0.54, stream="official:sym40:2:listed")]
    heading = "CIFAR-10: what the order of the published streams changes"
    found = part(page_of([*shuffled, *listed]), heading)
    assert line(found, "PuriDivER, recipe official")[1:3] == ["", "-3.00 ± 1.00 (2; p = 0.20)"]
    assert "| RSV |" not in found
    assert heading not in page_of(shuffled)
    assert heading not in page_of([*shuffled, *(full_run(4, 0.5, stream="official:sym40:4:listed"),)])
