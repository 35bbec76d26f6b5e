"""The process of one peer: ``python -m benchmarks.worker PEER THREADS``.

It waits for requests on its standard input and answers on its standard output, and does nothing in
between, so that no peer's threads run while another's are timed.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import protocol
from benchmarks.cases import Case
from benchmarks.inputs import Array, make_inputs
from benchmarks.peers import PEERS, NotOfferedError, Peer, Run

GROWTH_BUDGET = 0.5  # seconds of calls, of which the best one counts


class Worker:
    """Answers the requests of `benchmarks.protocol`."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.runs: list[Run] = []  # one for each copy of the inputs
        self.calls = 1
        self.answers: dict[str, Callable[[Any], Any]] = {
            protocol.DESCRIBE: self.describe,
            protocol.OPEN: self.open,
            protocol.ROWS: self.rows,
            protocol.TIME: self.time,
            protocol.MEMORY: self.memory,
        }

    def describe(self, _: object) -> str:
        """Return the peer's version."""
        return self.peer.describe()

    def open(self, case: Case) -> None:
        """Make the inputs of a case, in place of those of the case before."""
        self.runs.clear()
        for _ in range(case.copies):
            self.runs.append(self.peer.prepare(make_inputs(case)))
        self.calls = case.calls

    def rows(self, rows: list[int]) -> Array:
        """Run once; return some rows of the output, all NaN where any number isn't finite."""
        output = np.asarray(self.runs[0]())
        picked = output[:, :, rows].astype(np.float64)
        return picked if np.isfinite(output).all() else np.full_like(picked, np.nan)

    def time(self, budget: float) -> float:
        """Run again and again for ``budget`` seconds, at least once; return the best time."""
        best, started = np.inf, perf_counter()
        while best == np.inf or perf_counter() - started < budget:
            best = min(best, _time_calls(self.runs, self.calls))
        return float(best)

    def memory(self, case: Case) -> tuple[float, int]:
        """See how far one call lets the process's memory grow, beyond its output; then time more.

        A tiny call comes first, so that libraries load and threads start beforehand.
        """
        self.peer.prepare(make_inputs(replace(case, query_len=64, kv_len=64)))()
        self.open(case)
        gc.collect()
        before = reset_peak()
        output = self.runs[0]()
        grown = max(0, peak_memory() - before - output.nbytes)
        del output
        return self.time(GROWTH_BUDGET), grown


def _time_calls(runs: list[Run], calls: int) -> float:
    """Return seconds of one call; the last output is freed after the clock stops."""
    output: Array = None
    begin = perf_counter()
    for _ in range(calls):
        for run in runs:
            output = run()
    seconds = perf_counter() - begin
    del output
    return seconds / (calls * len(runs))


def reset_peak() -> int:
    """Set the peak of resident memory back to the present; return it in bytes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_memory()


def peak_memory() -> int:
    """Return the largest resident memory since `reset_peak`, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("this system does not tell a process's peak memory")


def answer(worker: Worker, name: str, argument: object) -> tuple[str, Any]:
    """Answer one request; what goes wrong becomes a status and one line of text."""
    try:
        return protocol.OK, worker.answers[name](argument)
    except NotOfferedError as error:
        return protocol.NOT_OFFERED, str(error)
    except Exception as error:  # noqa: BLE001, RUF100 - a peer may raise anything
        lines = f"{type(error).__name__}: {error}".splitlines()
        return protocol.FAILED, lines[0][:200]


def make_peer(name: str, threads: int) -> tuple[Peer | None, str]:
    """Import a peer's library; None and the reason where that fails."""
    try:
        return PEERS[name](threads), ""
    except ImportError as error:
        return None, str(error)


def use_cores(count: int) -> None:
    """Keep this process on the first ``count`` of its cores: no peer gets more than the others."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main() -> None:
    """Serve until the requests end. What libraries print goes to the error stream."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    name, threads = sys.argv[1], int(sys.argv[2])
    use_cores(threads)
    gc.disable()
    peer, reason = make_peer(name, threads)
    worker = None if peer is None else Worker(peer)
    while True:
        try:
            request, argument = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        missing = (protocol.NOT_INSTALLED, reason)
        pickle.dump(missing if worker is None else answer(worker, request, argument), replies)
        replies.flush()


if __name__ == "__main__":
    main()
