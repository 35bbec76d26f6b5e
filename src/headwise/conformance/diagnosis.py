"""Which known mistakes explain the failures: by evidence, case by case.

A mistake is named where its own results are those of the target in failing cases and it would have
failed in no case that the target passes. Several are found one after another, each added to those
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.conformance.cases import FUNCTIONS, Case
from headwise.conformance.judge import Verdict, alike, judge
from headwise.conformance.mistakes import MISTAKES, Mistake
from headwise.conformance.outcome import Outcome, invoke
from headwise.conformance.plain import Plain

LARGE = 5000  # passing cases of more numbers are not held against a mistake: they cost time
NOT_REPRODUCED = {"law", "timed out", "crashed", "exited", "not run", "not offered"}


@dataclass(frozen=True)
class Result:
    """One case with what came of it."""

    case: Case
    outcome: Outcome
    verdict: Verdict


@dataclass(frozen=True)
class Finding:
    """A mistake with the failures it explains, the smallest input first."""

    mistake: Mistake
    results: tuple[Result, ...]


def diagnose(results: Iterable[Result]) -> list[Finding]:
    """Name the mistakes that explain the failures, those that explain most first."""
    results = list(results)
    found: dict[str, tuple[Mistake, list[Result]]] = {}
    for function in FUNCTIONS:  # in this order: splitting and attention, then what uses both
        own = [r for r in results if r.case.function == function]
        for mistake, explained in _Search(own, [m for m, _ in found.values()]).run():
            found.setdefault(mistake.name, (mistake, []))[1].extend(explained)
    findings = [Finding(mistake, tuple(by_size(rs))) for mistake, rs in found.values()]
    return sorted(findings, key=lambda finding: -len(finding.results))


def by_size(results: Iterable[Result]) -> list[Result]:
    """Sort results by the size of their inputs."""
    return sorted(results, key=lambda result: result.case.size)


class _Search:
    """The search for the mistakes in one function."""

    def __init__(self, results: Sequence[Result], known: Sequence[Mistake]) -> None:
        usable = [r for r in results if r.outcome.kind not in NOT_REPRODUCED]
        self.failures = [r for r in usable if r.verdict.status == "fail"]
        self.passes = [r for r in usable if r.verdict.status == "pass" and r.case.size <= LARGE]
        self.known = {mistake.name for mistake in known}

    def run(self) -> list[tuple[Mistake, list[Result]]]:
        """Add one mistake after another, as long as each explains more."""
        made: list[Mistake] = []
        explained: set[str] = set()
        found = []
        while len(explained) < len(self.failures):
            best = self._best(made, explained)
            if best is None:
                break
            mistake, names = best
            more = [r for r in self.failures if r.case.name in names - explained]
            found.append((mistake, more))
            made, explained = [*made, mistake], explained | names
        return found

    def _best(self, made: list[Mistake], explained: set[str]) -> tuple[Mistake, set[str]] | None:
        """Return the mistake that explains most beside those made, and all that is explained."""
        candidates = []
        for place, mistake in enumerate(MISTAKES):
            if _conflict(mistake, made):
                continue
            names = self._explained([*made, mistake])
            if len(names) > len(explained):
                rank = (-len(names), mistake.name not in self.known, place)
                candidates.append((rank, mistake, names))
        for _, mistake, names in sorted(candidates, key=lambda c: c[0]):
            if not self._contradicted([*made, mistake]):
                return mistake, names
        return None

    def _explained(self, mistakes: list[Mistake]) -> set[str]:
        target = Plain(*mistakes).target()
        with np.errstate(all="ignore"):
            return {
                r.case.name
                for r in self.failures
                if alike(r.case, r.outcome, invoke(target, r.case))
            }

    def _contradicted(self, mistakes: list[Mistake]) -> bool:
        target = Plain(*mistakes).target()
        with np.errstate(all="ignore"):
            return any(judge(r.case, invoke(target, r.case)).status == "fail" for r in self.passes)


def _conflict(mistake: Mistake, made: list[Mistake]) -> bool:
    """Tell whether another mistake replaces one of the same steps already."""
    return any(set(mistake.steps) & set(other.steps) for other in made)
