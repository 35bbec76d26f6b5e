"""``headwise compare``: two atlases, and the heads that differ most."""

from __future__ import annotations

import argparse
import csv
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwise._errors import listing
from headwise.cli_files import UsageError, add_files, chosen_files, need_extra, write_files

if TYPE_CHECKING:
    from headwise.lens import Atlas, Comparison

FILES = {
    "png": "a picture of the differences in --measure",
    "svg": "the same as SVG",
    "csv": "one line for each head: before, after",
}
EPILOG = """\
examples:
  headwise look --model base --text page.txt --atlas base.nc --no-page
  headwise look --model tuned --text page.txt --atlas tuned.nc --no-page
  headwise compare base.nc tuned.nc --measure induction --png changed.png
"""


def add_compare(commands: Any) -> None:
    """Add the command to the parser."""
    compare = commands.add_parser(
        "compare",
        help="compare two models' heads, or a model's before and after training",
        description="List the heads that differ most between two atlases of the same layers and "
        "heads (headwise look --atlas), or two recordings.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_argument("before", type=Path, metavar="A", help="an atlas (.nc) or a recording")
    compare.add_argument("after", type=Path, metavar="B", help="another one")
    compare.add_argument("--measure", metavar="NAME", help="the measure that is drawn and listed")
    compare.add_argument("--count", type=int, default=10, metavar="N", help="heads to list (10)")
    add_files(compare, FILES)
    compare.add_argument("--no-color", action="store_true", help="print without colours")
    compare.set_defaults(run=run_compare)


def run_compare(options: argparse.Namespace) -> int:
    """Compare two atlases."""
    need_extra("compare")
    from rich.console import Console

    from headwise import lens
    from headwise.lens.terminal import print_comparison

    files = chosen_files(options, FILES)
    if options.count < 1:
        raise UsageError(f"--count must be at least 1, got {options.count}")
    before, after = _read(options.before), _read(options.after)
    try:
        found = lens.compare(before, after)
    except ValueError as error:
        raise UsageError(str(error)) from None
    measure = options.measure
    if measure is not None and measure not in found.before:
        raise UsageError(f"--measure must be {listing(found.before)}, got {measure}")
    console = Console(no_color=options.no_color or None, highlight=False)
    print_comparison(console, found, options.count, measure)
    drawn = measure or found.most_changed(1)[0].most
    picture = partial(_draw, found, drawn)
    written = write_files(
        files, {"png": picture, "svg": picture, "csv": partial(_write_csv, found)}
    )
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    return 0


def _read(path: Path) -> Atlas:
    from headwise import lens

    try:
        if path.suffix in {".npz", ".safetensors"}:
            return lens.profile(lens.load(path))
        return lens.Atlas.load(path)
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None


def _draw(found: Comparison, measure: str, path: Path) -> None:
    from headwise.lens.pictures import draw_difference

    before, after = found.reports()
    draw_difference(after, before, measure, path)


def _write_csv(found: Comparison, path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = [f"{name} {when}" for name in found.before for when in ("before", "after")]
        writer.writerow(["layer", "head", "amount", *names])
        amounts = found.amounts
        for row, layer in enumerate(found.layers):
            for column, head in enumerate(found.heads):
                tables = [
                    t for name in found.before for t in (found.before[name], found.after[name])
                ]
                values = [f"{table[row, column]:.8g}" for table in tables]
                writer.writerow([layer, head, f"{amounts[row, column]:.8g}", *values])
