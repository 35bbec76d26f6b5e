"""What a check found: the results, counted by group, and the mistakes that explain failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from headwise.conformance.cases import LEVELS, Case, groups, load_cases, select
from headwise.conformance.diagnosis import Finding, Result, by_size, diagnose
from headwise.conformance.judge import STATUSES, judge
from headwise.conformance.runner import Session, Settings

NO_PROGRESS: Callable[[int, int, str], None] = lambda *_: None  # noqa: E731


@dataclass(frozen=True)
class Report:
    """The results of a check.

    Attributes
    ----------
    target
        What was checked, as it was named.
    about
        The target's functions, or a library's version.
    results
        One for each case: ``case``, ``outcome`` and ``verdict`` with its ``status`` and ``why``.
    findings
        Known mistakes, each with the results it explains.
    seconds
        How long it took.
    """

    target: str
    about: str
    functions: tuple[str, ...]
    results: tuple[Result, ...]
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every case that the target offers passes."""
        return all(r.verdict.status in {"pass", "not offered"} for r in self.results)

    def of(self, status: str) -> list[Result]:
        """Return the results of one status: pass, fail, not offered or not run."""
        return [r for r in self.results if r.verdict.status == status]

    def unexplained(self) -> list[Result]:
        """Return the failures that no known mistake explains, the smallest input first."""
        explained = {r.case.name for finding in self.findings for r in finding.results}
        return by_size(r for r in self.of("fail") if r.case.name not in explained)

    def counts(self, group: str | None = None, level: str | None = None) -> Counter[str]:
        """Count statuses, in one group or level or in all."""
        return Counter(
            r.verdict.status
            for r in self.results
            if group in {None, r.case.group} and level in {None, r.case.level}
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain lists, texts and numbers."""
        return {
            "target": self.target,
            "about": self.about,
            "functions": list(self.functions),
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "counts": {status: self.counts()[status] for status in STATUSES},
            "levels": {level: dict(self.counts(level=level)) for level in LEVELS},
            "groups": {g: dict(self.counts(g)) for g in groups() if self.counts(g)},
            "mistakes": [_finding(finding) for finding in self.findings],
            "unexplained": [r.case.name for r in self.unexplained()],
            "cases": [_result(r) for r in self.results],
        }


def _finding(finding: Finding) -> dict[str, Any]:
    mistake = finding.mistake
    return {
        "name": mistake.name,
        "says": mistake.says,
        "remedy": mistake.remedy,
        "explains": [r.case.name for r in finding.results],
        "against": list(finding.against),
    }


def _result(result: Result) -> dict[str, Any]:
    case = result.case
    return {
        "name": case.name,
        "level": case.level,
        "function": case.function,
        "status": result.verdict.status,
        "why": result.verdict.why,
        "where": result.outcome.where,
        "asks": case.asks,
        "source": case.source,
    }


def check(
    target: str,
    *,
    only: Sequence[str] = (),
    core: bool = False,
    function: str | None = None,
    arrays: str = "numpy",
    timeout: float = 10.0,
    memory_gib: float = 4.0,
    progress: Callable[[int, int, str], None] = NO_PROGRESS,
) -> Report:
    """Check an implementation of attention, in a process of its own.

    Parameters
    ----------
    target
        ``file.py``, ``module``, either with ``:function``, or a library: headwise, numpy, torch,
        jax, onnxruntime.
    only
        Groups or names of cases, with ``*`` for anything; none is all.
    core
        Leave out what textbook solutions are known to miss.
    function
        Which of the four functions a single one is, where its name and parameters don't say.
    arrays
        What a Python function is given: "numpy", "torch" or "jax" arrays.
    timeout
        Seconds for one case.
    memory_gib
        What the target may take beyond its imports; 0 is no limit.
    progress
        Called with the number of the case, of how many, and its name.

    Returns
    -------
    Report

    Raises
    ------
    TargetError
        Where the target cannot be loaded; a ValueError where ``only`` fits no case.

    Examples
    --------
    >>> from headwise import conformance
    >>> report = conformance.check("headwise", only=["split"])
    >>> report.ok, report.counts()["pass"]
    (True, 21)
    """
    cases = select(load_cases(), only, core)
    if not cases:
        raise ValueError(
            f"only={', '.join(only)} fits no case: give a group ({', '.join(groups())}) or a name"
        )
    started = perf_counter()
    with Session(Settings(target, function, arrays, timeout, memory_gib)) as session:
        results = run(session, cases, progress)
    findings = tuple(diagnose(results))
    spent = perf_counter() - started
    functions = tuple(session.functions)
    return Report(target, session.about, functions, results, findings, spent)


def run(
    session: Session, cases: Sequence[Case], progress: Callable[[int, int, str], None] = NO_PROGRESS
) -> tuple[Result, ...]:
    """Run cases in a session and judge what comes."""
    results = []
    for number, (case, outcome) in enumerate(session.run(cases), start=1):
        results.append(Result(case, outcome, judge(case, outcome)))
        progress(number, len(cases), case.name)
    return tuple(results)
