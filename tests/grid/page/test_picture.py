"""The picture of the headline figures: which runs it shows, and that their signs stand where they should."""

from __future__ import annotations

from matplotlib.figure import Figure

from puridiver.grid.page.page import headline_drawing
from tests.grid.page.samples import full_run

NOISES = ("sym-20", "sym-40", "sym-60", "asym-20", "asym-40")


def numbers(rows: list[dict]) -> dict[tuple[str, str], list[str]]:
    return {(title, figure): list(found) for title, figure, *found in headline_drawing(rows).rows}


def test_every_run_is_a_number_by_seed_and_what_was_not_run_is_left_out() -> None:
    found = numbers([full_run(2, 0.58), full_run(1, 0.56)])
    assert found["PuriDivER, recipe official", "last accuracy %"] == ["-", "56.00 58.00", "-", "-", "-"]
    assert found["PuriDivER, the paper", "last accuracy %"][1] == "59.2 ± 0.3"
    assert found["PuriDivER, rerun", "last accuracy %"][1] == "57.1 ± 1.9 (3)"
    assert not any(title.startswith(("PuriDivER, recipe puridiver", "RSV")) for title, _ in found)


def test_a_method_is_shown_once_in_the_order_that_has_more_runs() -> None:
    plain = {"sampler": "rsv", "trainer": "plain"}
    shuffled = [full_run(1, 0.3, noise, **plain) for noise in NOISES]
    listed = [
        full_run(seed, 0.4, noise, stream=f"official:{noise.replace('-', '')}:{seed}:listed", **plain)
        for noise in NOISES
        for seed in (1, 2)
    ]
    few, many = numbers(shuffled), numbers([*shuffled, *listed])
    assert few["RSV", "last accuracy %"] == ["30.00"] * 5
    assert many["RSV, files' order", "last accuracy %"] == ["40.00 40.00"] * 5
    assert ("RSV", "last accuracy %") not in many


def test_signs_stand_at_their_noise_and_height() -> None:
    picture = headline_drawing([full_run(1, 0.56), full_run(2, 0.58), full_run(1, 0.61, "asym-20")])
    axes = Figure().add_subplot()
    picture.panels[0].paint(axes)
    means = next(line for line in axes.get_lines() if line.get_label() == "PuriDivER, recipe official")
    (alone,) = (line for line in axes.get_lines() if line.get_markerfacecolor() == "white")
    assert [(round(x), round(float(y), 6)) for x, y in means.get_xydata()] == [(1, 57)]
    assert [(round(x), round(float(y), 6)) for x, y in alone.get_xydata()] == [(3, 61)]
    assert [label.get_text() for label in axes.get_xticklabels()] == list(NOISES)


def test_the_fingerprint_is_of_the_numbers() -> None:
    one, same, other = (headline_drawing([full_run(1, accuracy)]) for accuracy in (0.5, 0.5, 0.51))
    assert one.fingerprint == same.fingerprint != other.fingerprint
