"""Time as the number of queries grows, from one to a few dozen: where kernels switch, no cliff."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks import protocol, table
from benchmarks.cases import Case
from benchmarks.processes import Process, WorkerError
from benchmarks.quiet import Quiet
from benchmarks.runner import time_peer

QUERIES = (*range(1, 25), 28, 31, 32, 33, 36, 40, 44, 48, 52, 56, 60, 63, 64, 65, 68, 72, 80)
HEADS, KEYS, DIM = 8, 8192, 128
SHAPE = f"(1, {HEADS}, q x {KEYS}, {DIM})"
BUDGET = 0.05  # seconds for each peer in a round


@dataclass(frozen=True)
class QueryPoint:
    """One peer's time for one number of queries; None where it does not offer the case."""

    peer: str
    queries: int
    seconds: float | None


def measure_queries(
    peers: tuple[str, ...], threads: int, rounds: int, patience: float
) -> list[QueryPoint]:
    """Time every number of queries, peers by turns; the median of the rounds counts."""
    points, quiet = [], Quiet(patience)
    with ExitStack() as stack:
        processes = {peer: stack.enter_context(Process(peer, threads)) for peer in peers}
        for queries in QUERIES:
            table.progress(f"queries: {queries}")
            times = _measure(processes, queries, rounds, quiet)
            points += [QueryPoint(peer, queries, seconds) for peer, seconds in times.items()]
    table.progress("")
    return points


def _measure(
    processes: dict[str, Process], queries: int, rounds: int, quiet: Quiet
) -> dict[str, float | None]:
    case = Case(f"queries{queries}", 1, HEADS, queries, KEYS, DIM, roof="bandwidth")
    ready = [peer for peer, process in processes.items() if _opens(process, case)]
    seconds: dict[str, list[float]] = {peer: [] for peer in ready}
    for _ in range(rounds):
        for peer in ready:
            seconds[peer].append(time_peer(processes[peer], BUDGET, quiet)[0])
    return {peer: statistics.median(seconds[peer]) if peer in ready else None for peer in processes}


def _opens(process: Process, case: Case) -> bool:
    try:
        process.ask(protocol.OPEN, case)
    except WorkerError:
        return False
    return True


def show_queries(points: list[QueryPoint]) -> None:
    """Print a line for each number of queries: the time of each peer."""
    peers = list(dict.fromkeys(point.peer for point in points))
    rows: dict[int, list[str]] = {}
    for point in points:
        row = rows.setdefault(point.queries, [str(point.queries)])
        row.append(table.duration(point.seconds))
    table.show(f"time against the number of queries: {SHAPE}", ["q", *peers], list(rows.values()))
