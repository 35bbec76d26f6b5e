"""The benchmark's command line: ``python -m benchmarks [run|growth|queries|show]``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import cases, curves, growth, machine, picture, queries, table
from benchmarks.peers import PEERS
from benchmarks.quiet import Quiet
from benchmarks.results import Results, load
from benchmarks.roofs import Roofs, folder_for_roofs
from benchmarks.runner import Plan, Runner


def make_parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("what", nargs="?", default="run", choices=("run", "growth", "queries", "show"))
    add("--cases", default="", help="names, separated by commas; default: all")
    few = "growth and queries: the first three"
    add("--peers", default="", help=f"of {', '.join(PEERS)}; default: all ({few})")
    add("--rounds", type=int, default=7, help="how often each peer is timed")
    add("--threads", type=int, default=machine.available_cores(), help="default: all cores")
    add("--patience", type=float, default=120, help="seconds to wait for other programs, in all")
    add("--json", type=Path, help="write the measurements to this file; show reads it")
    add("--picture", type=Path, help="draw the results to this PNG or SVG")
    add("--quick", action="store_true", help="a few short cases, three rounds")
    add("--longest", type=int, default=growth.LONGEST, help="growth: most tokens")
    return parser


def chosen_peers(names: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the peers named in a list separated by commas, headwise first.

    Raises
    ------
    ValueError
        For a name that is no peer's.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(default)
    unknown = [name for name in wanted if name not in PEERS]
    if unknown:
        raise ValueError(f"no peer is called {unknown[0]!r}; there are {', '.join(PEERS)}")
    return tuple(dict.fromkeys(["headwise", *wanted]))


def run(options: argparse.Namespace) -> None:
    """Measure the cases; print each when it is done, then the summary."""
    grid = cases.find(options.cases or (",".join(cases.QUICK) if options.quick else ""))
    peers = chosen_peers(options.peers, tuple(PEERS))
    rounds = 3 if options.quick else options.rounds
    plan = Plan(peers, rounds, options.threads)
    with folder_for_roofs() as folder:
        roofs = Roofs(options.threads, Path(folder), Quiet(options.patience))
        results = measure(plan, grid, roofs)
    table.show_summary(results)
    if options.json:
        results.save(options.json)
    if options.picture:
        picture.draw(results, options.picture)


def measure(plan: Plan, grid: list[cases.Case], roofs: Roofs) -> Results:
    """Run the plan."""
    table.progress("roofs")
    rates = roofs.overview()
    with Runner(plan, roofs, table.progress) as runner:
        about = machine.describe(plan.threads, rates, runner.descriptions())
        table.progress("")
        table.show_machine(about)
        done = []
        for case in grid:
            done.append(runner.run(case))
            table.progress("")
            table.show_case(done[-1])
    return Results(about, done)


def grow(options: argparse.Namespace) -> None:
    """Measure time and memory as the sequence grows."""
    peers = chosen_peers(options.peers, tuple(PEERS)[:3])
    points = growth.measure_growth(peers, options.threads, options.longest, options.patience)
    growth.show_growth(points)
    keep(points, curves.draw_growth, options)


def few_queries(options: argparse.Namespace) -> None:
    """Measure time as the number of queries grows from one."""
    peers = chosen_peers(options.peers, tuple(PEERS)[:3])
    points = queries.measure_queries(peers, options.threads, options.rounds, options.patience)
    queries.show_queries(points)
    keep(points, curves.draw_queries, options)


def keep(points: Sequence[Any], draw: Callable[..., None], options: argparse.Namespace) -> None:
    """Write the points of lines as JSON and draw them, where asked for."""
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps([asdict(point) for point in points], indent=1)
        options.json.write_text(text + "\n", encoding="utf-8")
    if options.picture:
        about = machine.describe(options.threads, {}, {})
        draw(points, machine.in_short(about), options.picture)


def show(options: argparse.Namespace) -> None:
    """Print, and draw, the results of an earlier run."""
    if options.json is None:
        raise ValueError("show needs --json, a file that an earlier run wrote")
    results = load(options.json)
    table.show_machine(results.machine)
    for result in results.cases:
        table.show_case(result)
    table.show_summary(results)
    if options.picture:
        picture.draw(results, options.picture)


def main() -> None:
    """Read the command line and do what it says."""
    parser = make_parser()
    options = parser.parse_args()
    cores = machine.available_cores()
    if not 1 <= options.threads <= cores or options.rounds < 1:
        parser.error(f"--threads must lie within 1 and {cores}, --rounds be at least 1")
    try:
        {"run": run, "growth": grow, "queries": few_queries, "show": show}[options.what](options)
    except ValueError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
