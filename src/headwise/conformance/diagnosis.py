"""Which known mistakes explain the failures: by evidence, case by case.

A mistake is named where its own results are those of the target in failing cases and it would have
failed in none that the target passes; or in a few, where it explains many times as much, for code
has branches. Several are found one after another, each added to those before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from headwise.conformance.cases import FUNCTIONS, Case
from headwise.conformance.judge import Verdict, alike, judge
from headwise.conformance.mistakes import MISTAKES, Mistake
from headwise.conformance.outcome import Outcome, Target, invoke
from headwise.conformance.plain import Plain, may_act

LARGE = 5000  # passing cases of more numbers are not held against a mistake: they cost time
PRICE = 4  # a passing case that speaks against a mistake weighs as much as so many explained
LEAST = 0.2  # share of the failures a mistake bears on that it must explain
NOT_REPRODUCED = {"law", "timed out", "crashed", "exited", "not run", "not offered"}

_DIFFERS: dict[int, dict[str, bool]] = {}  # by mistake and case: whatever the target, so kept


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
    against: tuple[str, ...]  # passing cases that it would have failed


def diagnose(results: Iterable[Result]) -> list[Finding]:
    """Name the mistakes that explain the failures, those in core cases first."""
    results = list(results)
    found: dict[str, Finding] = {}
    for function in FUNCTIONS:  # in this order: splitting and attention, then what uses both
        own = [r for r in results if r.case.function == function]
        for more in _Search(own, found).run():
            before = found.get(more.mistake.name, Finding(more.mistake, (), ()))
            found[more.mistake.name] = Finding(
                more.mistake,
                tuple(by_size([*before.results, *more.results])),
                before.against + more.against,
            )
    return sorted(found.values(), key=_rank)


def _rank(finding: Finding) -> tuple[bool, int]:
    """Sort what fails in core cases first, then what explains most."""
    return all(r.case.level != "core" for r in finding.results), -len(finding.results)


def by_size(results: Iterable[Result]) -> list[Result]:
    """Sort results by the size of their inputs."""
    return sorted(results, key=lambda result: result.case.size)


class _Search:
    """The search for the mistakes in one function."""

    def __init__(self, results: Sequence[Result], known: Collection[str]) -> None:
        usable = [r for r in results if r.outcome.kind not in NOT_REPRODUCED]
        self.failures = [r for r in usable if r.verdict.status == "fail"]
        self.passes = [r for r in usable if r.verdict.status == "pass" and _counts(r.case)]
        self.known = set(known)
        self.calls = {r.case.name: r.case.call() for r in usable} if self.failures else {}
        self.touched = [self._touched(m) for m in MISTAKES] if self.failures else []

    def _outcome(self, target: Target, case: Case) -> Outcome:
        with np.errstate(all="ignore"):
            return invoke(target, case, self.calls[case.name].copy())

    def _touched(self, mistake: Mistake) -> set[str]:
        """Return the failing cases in which a mistake makes a difference."""
        target = Plain(mistake).target()
        cases = [r.case for r in self.failures if may_act(mistake, r.case)]
        known = _DIFFERS.setdefault(id(mistake), {})
        for case in cases:
            if case.name not in known:
                known[case.name] = judge(case, self._outcome(target, case)).status != "pass"
        return {case.name for case in cases if known[case.name]}

    def run(self) -> list[Finding]:
        """Search until nothing more is explained, each time from the start: code has branches."""
        found: list[Finding] = []
        while self.failures:
            more = self._chain()
            if not more:
                break
            found += more
            explained = {r.case.name for finding in more for r in finding.results}
            self.failures = [r for r in self.failures if r.case.name not in explained]
        return found

    def _chain(self) -> list[Finding]:
        """Add one mistake after another, as long as each explains more."""
        made: list[Mistake] = []
        found: list[Finding] = []
        explained: set[str] = set()
        against: set[str] = set()
        while len(explained) < len(self.failures):
            best = self._best(made, explained, against)
            if best is None:
                break
            found.append(best)
            made.append(best.mistake)
            explained |= {r.case.name for r in best.results}
            against |= set(best.against)
        return found

    def _best(self, made: list[Mistake], explained: set[str], against: set[str]) -> Finding | None:
        """Return the mistake that explains most beside those made, less what speaks against."""
        best, most = None, 0
        for mistake, names in self._candidates(made, explained):
            gain = len(names - explained)
            if gain <= most:
                break
            if gain < LEAST * len(self.touched[MISTAKES.index(mistake)] - explained):
                continue  # a coincidence: where it should show, it mostly does not
            contrary = self._against([*made, mistake]) - against
            if gain - PRICE * len(contrary) > most:
                results = [r for r in self.failures if r.case.name in names - explained]
                best = Finding(mistake, tuple(results), tuple(sorted(contrary)))
                most = gain - PRICE * len(contrary)
        return best

    def _candidates(
        self, made: list[Mistake], explained: set[str]
    ) -> list[tuple[Mistake, set[str]]]:
        """Return mistakes that explain more and lose nothing, those that explain most first."""
        found = []
        for place, mistake in enumerate(MISTAKES):
            if _conflict(mistake, made):
                continue
            among = self.touched[place]
            if made:  # together mistakes may make a difference where each alone makes none
                acts = {r.case.name for r in self.failures if may_act(mistake, r.case)}
                among = among | (acts - explained)
            names = self._explained([*made, mistake], among) | (explained - among)
            if names > explained:
                rank = (-len(names), mistake.name not in self.known, place)
                found.append((rank, mistake, names))
        return [(mistake, names) for _, mistake, names in sorted(found, key=lambda c: c[0])]

    def _explained(self, mistakes: list[Mistake], among: set[str]) -> set[str]:
        """Return the failures, among those named, in which mistakes give what the target gave."""
        target = Plain(*mistakes).target()
        slack = max(mistake.slack for mistake in mistakes)
        return {
            r.case.name
            for r in self.failures
            if r.case.name in among
            and alike(r.case, r.outcome, self._outcome(target, r.case), slack)
        }

    def _against(self, mistakes: list[Mistake]) -> set[str]:
        """Return the passing cases that would fail."""
        target = Plain(*mistakes).target()
        cases = (r.case for r in self.passes)
        return {c.name for c in cases if judge(c, self._outcome(target, c)).status == "fail"}


def _counts(case: Case) -> bool:
    """Tell whether passing speaks against mistakes: refusals are made before anything else."""
    return case.size <= LARGE and "raises" not in case.expected


def _conflict(mistake: Mistake, made: list[Mistake]) -> bool:
    """Tell whether another mistake replaces one of the same steps already."""
    return any(set(mistake.steps) & set(other.steps) for other in made)
