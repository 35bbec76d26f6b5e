"""Results as text: rich tables where rich is installed, aligned columns where it is not."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from benchmarks import protocol
from benchmarks.cases import Case
from benchmarks.results import OURS, CaseResult, Outcome, Results

Rows = list[list[str]]
WIDTH = 120  # columns where the output is no terminal


def show_case(result: CaseResult) -> None:
    """Print time, share of the roof, ratio and error of every peer, side by side."""
    rows = [_peer_row(result, peer, outcome) for peer, outcome in result.outcomes.items()]
    headers = ["peer", "time", "of roof", "headwise is", "error", ""]
    show(f"{result.case.name} {result.case.shape}", headers, rows)


def _peer_row(result: CaseResult, peer: str, outcome: Outcome) -> list[str]:
    ratio = "" if peer == OURS else factor(result.ratio(peer))
    error = "" if outcome.error is None else f"{outcome.error:.1e}"
    note = "" if outcome.status == protocol.OK else outcome.status
    note += f": {outcome.note}" if outcome.note else ""
    note += f"{outcome.disturbed} rounds disturbed" if outcome.disturbed else ""
    return [peer, duration(result.seconds(peer)), percent(result.share(peer)), ratio, error, note]


def show_summary(results: Results) -> None:
    """Print headwise beside the best peer of each case, and the mean."""
    headers = ["case", OURS, "of roof", "aim", "best peer", "its time", "of roof", "headwise is"]
    show("summary", headers, [_summary_row(result) for result in results.cases])
    mean = results.geometric_mean()
    if mean is not None:
        print(f"geometric mean against the best peer of each case: {mean:.2f} times as fast")


def _summary_row(result: CaseResult) -> list[str]:
    best = result.best_peer()
    row = [result.case.name, _ours(result), percent(result.share(OURS)), _aim(result.case)]
    if best is None:
        return [*row, "none", "", "", ""]
    share, ratio = percent(result.share(best)), factor(result.ratio(best))
    return [*row, best, duration(result.seconds(best)), share, ratio]


def _ours(result: CaseResult) -> str:
    outcome = result.outcomes.get(OURS)
    if outcome is None:
        return ""
    return duration(result.seconds(OURS)) if outcome.timed else outcome.status


def _aim(case: Case) -> str:
    return percent(case.aim) if case.aim else ""


def show_machine(machine: dict[str, Any]) -> None:
    """Print the machine, the roofs and the versions."""
    print(f"{machine['processor']}; {machine['cores']} cores; {machine['caches']}")
    print(f"{machine['system']}; {machine['threads']} threads; load {machine['load_before']}")
    rows = [[name, f"{rate:.1f}"] for name, rate in machine["roofs"].items()]
    show("roofs", ["what", "GFLOP/s or GB/s"], rows)
    print("; ".join(machine["peers"].values()))


def duration(seconds: float | None) -> str:
    """Write a time with three digits and its unit."""
    if seconds is None:
        return ""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def percent(share: float | None) -> str:
    """Write a share in percent."""
    return "" if share is None else f"{share * 100:.0f} %"


def factor(ratio: float | None) -> str:
    """Write how many times as fast."""
    return "" if ratio is None else f"{ratio:.2f} x"


def show(title: str, headers: list[str], rows: Rows) -> None:
    """Print a table; the columns between the first and the last stand to the right."""
    try:
        rich: Any = importlib.import_module("rich.table")
        box: Any = importlib.import_module("rich.box").SIMPLE_HEAD
        console: Any = importlib.import_module("rich.console").Console
    except ImportError:
        print(plain(title, headers, rows))
        return
    table = rich.Table(title=title, title_justify="left", box=box)
    for i, header in enumerate(headers):
        table.add_column(header, justify="right" if 0 < i < len(headers) - 1 else "left")
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else WIDTH
    console(markup=False, highlight=False, width=width).print(table)


def plain(title: str, headers: list[str], rows: Rows) -> str:
    """Return a table as aligned text."""
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [headers, *rows]
    ]
    return "\n".join([title, *lines, ""])


def progress(text: str) -> None:
    """Say what is going on, in one line that the next one replaces; nothing where no one looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text[:100]}")
        sys.stderr.flush()
