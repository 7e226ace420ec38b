"""`puridiver results`: the results page from the ledger."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from puridiver.cli.common import add_command

if TYPE_CHECKING:
    from pathlib import Path

    from puridiver.grid.page.tables import Contents
    from puridiver.report.style import Picture

EXAMPLES = """\
examples:
  puridiver results results/cifar10.jsonl             print the page
  puridiver results results/cifar10.jsonl --out docs/RESULTS.md --picture docs/cifar10.png --headline README.md
      write it with its picture, and the headline figures between that page's markers (--fidelity docs/FIDELITY.md:
      what each row there is worth)
  puridiver results results/cifar10.jsonl --picture cifar10.png
      draw the headline figures: every run a dot, beside what is published
  puridiver results results/cifar10.jsonl --fidelity docs/FIDELITY.md --fidelity-picture docs/fidelity.png
      write what each row of that page is worth, and draw it
  puridiver results results/cifar10.jsonl --out docs/RESULTS.md --picture docs/cifar10.png --check
      write nothing; exit 1 if the page or its picture is not what the ledger gives
  puridiver results results/cifar10.jsonl --commands  how every row was made
  puridiver results results/cifar10.jsonl --commands --line "PuriDivER, recipe puridiver" --noise sym-40
      how the rows behind one figure of the tables were made, and which older ones were set aside for them
"""
# What goes between the markers NAME:begin and NAME:end of other pages.
INSERTED = {
    "fidelity": "what each row of docs/FIDELITY.md is worth",
    "headline": "PuriDivER's figures on CIFAR-10 in one small table",
}
PICTURES = ("picture", "fidelity_picture", "alpha_picture")


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "results",
        "write the results page: the paper's tables with verdicts, and every other run of a ledger",
        EXAMPLES,
    )
    parser.add_argument("ledger", nargs="+", metavar="LEDGER", help="JSON-lines files, or folders of `puridiver grid`")
    parser.add_argument("--out", metavar="PAGE", help="write the page there (default: print it)")
    for name, what in INSERTED.items():
        told = f"write {what} between the markers {name}:begin and {name}:end of this page"
        parser.add_argument(f"--{name}", metavar="PAGE", help=told)
    parser.add_argument(
        "--picture", metavar="FILE", help="draw the headline figures there, .png, .svg or .pdf; --out shows them"
    )
    parser.add_argument(
        "--fidelity-picture", metavar="FILE", help="draw what each row of docs/FIDELITY.md is worth there; same kinds"
    )
    parser.add_argument(
        "--alpha-picture", metavar="FILE", help="draw Table 4 there, accuracy and purity by alpha; same kinds"
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a page, or a .png picture, is not up to date"
    )
    parser.add_argument("--commands", action="store_true", help="print commit and command of every row instead")
    parser.add_argument(
        "--line",
        metavar="TITLE",
        help="with --commands: of the rows behind this line of the tables: on shuffled streams, if it was run on any; "
        'those in the order of the files where ", files\' order" ends the title',
    )
    parser.add_argument("--noise", metavar="NOISE", help="with --line: of the rows under this noise alone")
    parser.set_defaults(handler=handle)


def handle(args: argparse.Namespace) -> int:
    from pathlib import Path

    from puridiver.grid.page.tables import sort_rows
    from puridiver.grid.results import ledger_at
    from puridiver.report.ledger import read_rows

    named = any(getattr(args, name) for name in ("out", *PICTURES, *INSERTED))
    if args.commands and (named or args.check):
        raise ValueError("--commands prints to the screen: say it without pages and without --check")
    if (args.line and not args.commands) or (args.noise and not args.line):
        raise ValueError("--line goes with --commands, and --noise with --line")
    if args.check and not named:
        raise ValueError(
            "--check needs something to check: say --out, --fidelity or --headline PAGE, or --picture, "
            "--fidelity-picture or --alpha-picture FILE"
        )
    _check_targets_differ(args)
    pictures = {name: Path(file) for name in PICTURES if (file := getattr(args, name))}
    for picture in pictures.values():
        _check_picture_name(picture, args.check)
    if args.out and not args.picture:
        _check_no_picture_is_lost(Path(args.out))
    ledgers = [ledger_at(Path(ledger)) for ledger in args.ledger]
    _check_ledgers_stay(args, ledgers)
    rows = [row for ledger in ledgers for row in read_rows(ledger)]
    if args.commands:
        return _print_line(rows, args.line, args.noise) if args.line else _print_commands(rows)
    contents = sort_rows(rows)
    pages = _pages(args, contents, ledgers)
    if args.check:
        return max(_check(pages, args.ledger), _check_pictures(pictures, contents, args.ledger))
    drawn = _draw(pictures, contents)  # first: a page should not show what cannot be
    for page, text in pages.items():
        page.write_text(text)
    print(*pages, *drawn, sep="\n", end="\n" if pages or drawn else "")
    return 0


def _pages(args: argparse.Namespace, contents: Contents, ledgers: Sequence[Path]) -> dict[Path, str]:
    """What each page should hold; printed at once where no page is named."""
    from pathlib import Path

    from puridiver.grid.page.page import fidelity_block, headline_block, make_page
    from puridiver.report.table import with_inserted

    blocks = {"fidelity": fidelity_block, "headline": headline_block}
    wanted = {name: Path(page) for name in INSERTED if (page := getattr(args, name))}
    drawing = Path(args.picture) if args.picture else None
    if not args.out and not wanted and not any(getattr(args, name) for name in PICTURES):
        sys.stdout.write(make_page(contents, ledgers))
        return {}
    found = {Path(args.out): make_page(contents, ledgers, Path(args.out), drawing)} if args.out else {}
    return found | {page: with_inserted(page, name, blocks[name](contents)) for name, page in wanted.items()}


def _check(pages: dict[Path, str], ledgers: Sequence[str]) -> int:
    """0 if every page is what the ledger gives; else 1, with the first line that is not."""
    from itertools import zip_longest

    outdated = 0
    for page, wanted in pages.items():
        have = page.read_text() if page.exists() else None
        if have == wanted:
            continue
        outdated = 1
        if have is None:
            where = "it is not there"
        else:
            pairs = enumerate(zip_longest(have.split("\n"), wanted.split("\n")), start=1)
            where = f"line {next(number for number, (old, new) in pairs if old != new)} is the first that differs"
        print(
            f"{page} is not what {', '.join(ledgers)} gives: {where}; run the same command without --check",
            file=sys.stderr,
        )
    return outdated


def _check_ledgers_stay(args: argparse.Namespace, ledgers: Sequence[Path]) -> None:
    """Nothing is written over the runs themselves."""
    from pathlib import Path

    for name in ("out", *PICTURES, *INSERTED):
        target = getattr(args, name)
        if target and Path(target).resolve() in [ledger.resolve() for ledger in ledgers]:
            raise ValueError(f"--{name.replace('_', '-')} {target} would write over the ledger: name another file")


def _check_targets_differ(args: argparse.Namespace) -> None:
    """Several blocks may go into one page; a page and a picture, or two pictures, not into one file."""
    from pathlib import Path

    names = ("out", *PICTURES, *INSERTED)
    targets = {name: Path(file).resolve() for name in names if (file := getattr(args, name))}
    for one, other in itertools.combinations(targets, 2):
        if targets[one] == targets[other] and not {one, other} <= INSERTED.keys():
            flags = " and ".join("--" + name.replace("_", "-") for name in (one, other))
            raise ValueError(f"{flags} name the same file, {getattr(args, one)}: one would write over the other")


def _check_picture_name(picture: Path, check: bool) -> None:
    from puridiver.report.style import check_kind

    if check_kind(picture) != "png" and check:
        raise ValueError(f"--check can read what a .png picture shows, but not {picture.name!r}")


def _check_no_picture_is_lost(page: Path) -> None:
    """A page that was made with a picture should not lose it because somebody forgot to name it."""
    first = page.read_text().partition("\n")[0] if page.is_file() else ""
    _, found, rest = first.partition(" --picture ")
    if found:
        named = rest.split("`")[0]
        raise ValueError(f"{page} shows a picture: say --picture {named}, too, or remove the page first")


def _drawings(names: Iterable[str], contents: Contents) -> dict[str, Picture]:
    from puridiver.grid.page.page import alpha_drawing, fidelity_drawing, headline_drawing

    painters = {"picture": headline_drawing, "fidelity_picture": fidelity_drawing, "alpha_picture": alpha_drawing}
    return {name: painters[name](contents) for name in names}


def _draw(pictures: Mapping[str, Path], contents: Contents) -> list[Path]:
    from puridiver.report.style import save

    return [save(drawing, pictures[name]) for name, drawing in _drawings(pictures, contents).items()]


def _check_pictures(pictures: Mapping[str, Path], contents: Contents, ledgers: Sequence[str]) -> int:
    """0 if pictures show what the ledger gives; their bytes may differ from one version of a library to the next."""
    from puridiver.report.style import shows_numbers_of

    wanted = _drawings(pictures, contents)
    outdated = [file for name, file in pictures.items() if not shows_numbers_of(file, wanted[name])]
    for file in outdated:
        told = f"{file} does not show what {', '.join(ledgers)} gives; run the same command without --check"
        print(told, file=sys.stderr)
    return int(bool(outdated))


def _print_line(rows: Sequence[dict[str, Any]], title: str, noise: str | None) -> int:
    """What each figure of a line is made of."""
    from puridiver.grid.page.behind import figures_of, line_number

    for figure in figures_of(rows, title, noise):
        print(f"## {figure.heading}")
        for row in figure.rows:
            _print_command(line_number(row), rows[line_number(row) - 1])
        for row in figure.older:
            print(f"# {line_number(row)}: {row['last_accuracy']:.2%}, seed {row['seed']}, set aside for a later run")
        print()
    return 0


def _print_commands(rows: Sequence[dict[str, Any]]) -> int:
    for number, row in enumerate(rows, start=1):
        _print_command(number, row)
    return 0


def _print_command(number: int, row: dict[str, Any]) -> None:
    from puridiver.streams.names import as_recorded

    versions = ", ".join(f"{name} {version}" for name, version in row.get("versions", {}).items())
    print(f"# {number}: {row['last_accuracy']:.2%}, commit {row.get('commit')}, {versions}, {row.get('device')}")
    if (now := as_recorded(row["stream"])) != row["stream"]:
        print(f"# at that commit {row['stream']} was what {now} is now")
    print(row.get("command", "# the row does not tell its command"))
