"""Time and memory as the sequence grows: one head, 64 dimensions, causal, each in a new process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks import protocol, table
from benchmarks.cases import Case
from benchmarks.peers import PEERS
from benchmarks.processes import Process, WorkerError
from benchmarks.quiet import Quiet, ended_children_time

SHORTEST, LONGEST = 1024, 65536
SHAPE = "(1, 1, n x n, 64) causal"
FULL_MATRICES = 3  # float32 matrices of weights that a peer may hold at once


@dataclass(frozen=True)
class Point:
    """One peer at one length; ``bytes`` beyond inputs and output, None where it was not run."""

    peer: str
    tokens: int
    seconds: float | None
    bytes: int | None
    note: str = ""


def measure_growth(
    peers: tuple[str, ...], threads: int, longest: int, patience: float
) -> list[Point]:
    """Measure every length in turn, peers side by side; again where other programs disturbed."""
    points, quiet = [], Quiet(patience)
    for tokens in lengths(longest):
        for peer in peers:
            table.progress(f"growth: {tokens} tokens, {peer}")
            measure = partial(measure_point, peer, tokens, threads)
            points.append(quiet.measure(measure, ended_children_time)[0])
    table.progress("")
    return points


def lengths(longest: int) -> Iterator[int]:
    """Yield the powers of 2 from `SHORTEST` up to ``longest``."""
    tokens = SHORTEST
    while tokens <= longest:
        yield tokens
        tokens *= 2


def measure_point(peer: str, tokens: int, threads: int) -> Point:
    """Run one call in a process of its own."""
    if PEERS[peer].forms_matrix and FULL_MATRICES * 4 * tokens**2 > free_memory() / 2:
        return Point(peer, tokens, None, None, "needs more memory than is free")
    case = Case(f"growth{tokens}", 1, 1, tokens, tokens, 64, causal=True)
    try:
        with Process(peer, threads) as process:
            seconds, grown = process.ask(protocol.MEMORY, case)
    except WorkerError as error:
        return Point(peer, tokens, None, None, error.status)
    return Point(peer, tokens, seconds, grown)


def free_memory() -> int:
    """Return the bytes of memory that are free now."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def show_growth(points: list[Point]) -> None:
    """Print a line for each length: time and extra memory of each peer."""
    peers = list(dict.fromkeys(point.peer for point in points))
    headers = ["tokens", *(f"{peer} {what}" for peer in peers for what in ("time", "MiB"))]
    rows: dict[int, list[str]] = {}
    for point in points:
        row = rows.setdefault(point.tokens, [str(point.tokens)])
        grown = point.note if point.bytes is None else f"{point.bytes / 2**20:.1f}"
        row += [table.duration(point.seconds), grown]
    title = f"growth: {SHAPE}; memory beyond inputs and output"
    table.show(title, headers, list(rows.values()))
