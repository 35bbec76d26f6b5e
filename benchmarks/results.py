"""Measurements, and the numbers drawn from them: medians over rounds of ratios within a round."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import protocol
from benchmarks.cases import Case

OURS = "headwise"


@dataclass
class Outcome:
    """What became of one peer in one case; ``seconds`` has one best time for each round."""

    status: str
    note: str = ""
    error: float | None = None
    seconds: list[float] = field(default_factory=list)
    disturbed: int = 0  # rounds in which other programs used the processor, too

    @property
    def timed(self) -> bool:
        """Whether it was right and has times."""
        return self.status == protocol.OK and bool(self.seconds)


@dataclass
class CaseResult:
    """All peers in one case; ``roof_seconds`` is the time at the roof, for each round."""

    case: Case
    outcomes: dict[str, Outcome]
    roof_seconds: list[float] = field(default_factory=list)

    def seconds(self, peer: str) -> float | None:
        """Median time of one call."""
        outcome = self.outcomes.get(peer)
        return median(outcome.seconds) if outcome and outcome.timed else None

    def ratio(self, peer: str) -> float | None:
        """How many times as long as headwise a peer takes."""
        ours = self.outcomes.get(OURS)
        return self._against(peer, ours.seconds) if ours and ours.timed else None

    def share(self, peer: str) -> float | None:
        """Share of the roof: time at the roof divided by the peer's."""
        inverse = self._against(peer, self.roof_seconds) if self.roof_seconds else None
        return None if inverse is None else 1 / inverse

    def _against(self, peer: str, base: list[float]) -> float | None:
        outcome = self.outcomes.get(peer)
        if outcome is None or not outcome.timed:
            return None
        return median(theirs / b for theirs, b in zip(outcome.seconds, base, strict=False))

    def best_peer(self) -> str | None:
        """Return the fastest of the others: by its ratio to headwise, or by its time alone."""
        measure = self.seconds if self.seconds(OURS) is None else self.ratio
        found = {p: x for p in self.outcomes if p != OURS and (x := measure(p)) is not None}
        return min(found, key=found.__getitem__) if found else None


@dataclass
class Results:
    """A whole run: the machine in words, and the cases."""

    machine: dict[str, Any]
    cases: list[CaseResult]

    def geometric_mean(self) -> float | None:
        """Return the mean of the best peer's time over headwise's; small calls are left out."""
        ratios = []
        for result in self.cases:
            best = result.best_peer()
            ratio = result.ratio(best) if best and result.case.roof != "overhead" else None
            ratios += [] if ratio is None else [ratio]
        return exp(sum(map(log, ratios)) / len(ratios)) if ratios else None

    def save(self, path: Path) -> None:
        """Write everything measured as JSON, with the derived numbers beside it."""
        cases = [{**asdict(r), "derived": _derived(r)} for r in self.cases]
        document = {"machine": self.machine, "cases": cases, "mean_ratio": self.geometric_mean()}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> Results:
    """Read what `Results.save` wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    cases = [
        CaseResult(
            Case(**{**entry["case"], "lengths": tuple(entry["case"]["lengths"])}),
            {peer: Outcome(**outcome) for peer, outcome in entry["outcomes"].items()},
            entry["roof_seconds"],
        )
        for entry in document["cases"]
    ]
    return Results(document["machine"], cases)


def _derived(result: CaseResult) -> dict[str, dict[str, float | None]]:
    return {
        peer: {
            "seconds": result.seconds(peer),
            "ratio": result.ratio(peer),
            "share_of_roof": result.share(peer),
        }
        for peer in result.outcomes
    }
