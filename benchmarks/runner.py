"""Checks every peer's result, then times the peers in interleaved rounds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from math import isfinite
from typing import Self

from benchmarks import protocol
from benchmarks.cases import Case
from benchmarks.oracle import Oracle, ask_oracle
from benchmarks.processes import Process, WorkerError
from benchmarks.quiet import Quiet, process_time
from benchmarks.results import CaseResult, Outcome
from benchmarks.roofs import Roofs

Report = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How to measure: ``budget`` is the seconds that each peer may take in each round."""

    peers: tuple[str, ...]
    rounds: int
    threads: int
    budget: float = 0.2


def time_peer(process: Process, budget: float, quiet: Quiet) -> tuple[float, bool]:
    """Return the best time of a peer's calls within ``budget`` seconds, and if none disturbed."""
    return quiet.measure(
        lambda: process.ask(protocol.TIME, budget), lambda: process_time(process.pid)
    )


class Runner:
    """Keeps one process for each peer; only one of them works at any time."""

    def __init__(self, plan: Plan, roofs: Roofs, report: Report) -> None:
        self.plan = plan
        self.roofs = roofs
        self.report = report
        self.quiet = roofs.quiet
        self._processes: dict[str, Process] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def descriptions(self) -> dict[str, str]:
        """Return each peer's version, or why it has none."""
        return {peer: self._describe(peer) for peer in self.plan.peers}

    def run(self, case: Case) -> CaseResult:
        """Check all peers, then time those that are right."""
        self.report(f"{case.name}: oracle")
        oracle = ask_oracle(case)
        result = CaseResult(case, {})
        for peer in self.plan.peers:
            self.report(f"{case.name}: checking {peer}")
            result.outcomes[peer] = self._check(peer, case, oracle)
        del oracle
        for number in range(self.plan.rounds):
            self._round(number, result)
        return result

    def _round(self, number: int, result: CaseResult) -> None:
        """Time every peer once, each round beginning with another one, and the roof."""
        case = result.case
        peers = [p for p, outcome in result.outcomes.items() if outcome.status == protocol.OK]
        start = number % len(peers) if peers else 0
        for peer in peers[start:] + peers[:start]:
            self.report(f"{case.name}: round {number + 1} of {self.plan.rounds}, {peer}")
            self._time(peer, result.outcomes[peer])
        if case.roof != "overhead":
            result.roof_seconds.append(self.roofs.seconds(case))

    def _time(self, peer: str, outcome: Outcome) -> None:
        try:
            process = self._process(peer)
            seconds, quiet = time_peer(process, self.plan.budget, self.quiet)
            outcome.seconds.append(seconds)
            outcome.disturbed += not quiet
        except WorkerError as error:
            outcome.status, outcome.note = error.status, str(error)
            self._forget(peer)

    def _check(self, peer: str, case: Case, oracle: Oracle) -> Outcome:
        try:
            process = self._process(peer)
            process.ask(protocol.OPEN, case)
            error = oracle.error(process.ask(protocol.ROWS, oracle.rows))
        except WorkerError as failure:
            if failure.status == protocol.FAILED:
                self._forget(peer)
            return Outcome(failure.status, str(failure))
        if not (isfinite(error) and error <= case.tolerance):
            return Outcome(protocol.WRONG, f"error above {case.tolerance:g}", error)
        return Outcome(protocol.OK, error=error)

    def _describe(self, peer: str) -> str:
        try:
            return str(self._process(peer).ask(protocol.DESCRIBE))
        except WorkerError as error:
            return f"{peer}: {error.status}"

    def _process(self, peer: str) -> Process:
        if peer not in self._processes:
            process = Process(peer, self.plan.threads)
            self._processes[peer] = self._stack.enter_context(process)
        return self._processes[peer]

    def _forget(self, peer: str) -> None:
        """End a process that failed; the next case gets a fresh one."""
        process = self._processes.pop(peer)
        process.close()
