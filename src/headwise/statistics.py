"""The statistics: their names, formulas and meanings, in one place.

Everything that lists statistics reads these tables: `headwise.observe`, the error messages, reports
and pages. For one head, query i and key j: weights ``p_ij``, scores ``s_ij``, ``V_i`` the keys that
i sees, ``n_i`` their number, ``o_i`` the output row, ``v_j`` a value, offset the ``query_offset``.
Rows that see no key have 0 everywhere, ``argmax`` -1 and ``lse`` -inf, and are left out of every
mean.

Row statistics (`STATISTICS`) come with the output. Those of the second pass (`SECOND_PASS`) need
final weights, which are made again from scores that are kept or computed once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from headwise._errors import listing
from headwise._numbers import whole_number
from headwise._second_pass import (
    SECOND_PASS,
    SecondPass,
    block_map,
    normalized_offset_mass,
    offset_mass,
    pair_count,
    stripe,
    top_keys,
    value_weighted,
    window_received,
)

__all__ = [
    "SECOND_PASS",
    "STATISTICS",
    "AnyStatistic",
    "SecondPass",
    "Statistic",
    "block_map",
    "first_weight",
    "normalized_offset_mass",
    "offset_mass",
    "pair_count",
    "resolve",
    "stripe",
    "top_keys",
    "value_weighted",
    "window_received",
]


@dataclass(frozen=True)
class Statistic:
    """One number for every query of every head."""

    name: str
    formula: str
    meaning: str
    unit: str = "weight"
    positional: bool = False  # depends on where query 0 stands on the keys' axis
    needs: tuple[str, ...] = ()  # statistics of the kernel it is made from, where not itself
    first_keys: int | None = None  # how many keys `first_weight` adds up

    @property
    def sources(self) -> tuple[str, ...]:
        """The kernel's statistics behind it."""
        return self.needs or (self.name,)


_TABLE = (
    Statistic("max_score", "max_j s_ij", "the largest score before the softmax", "score"),
    Statistic(
        "entropy",
        "lse_i - Σ_j p_ij s_ij, a sink included",
        "how spread out the weights are",
        "nats",
    ),
    Statistic(
        "normalized_entropy",
        "entropy_i / log n_i, a sink counting as a key",
        "entropy as a share of an even spread over the visible keys",
        "share",
        needs=("entropy", "visible_count"),
    ),
    Statistic("max_weight", "max_j p_ij", "the largest weight"),
    Statistic("argmax", "first j with the largest p_ij", "the key attended to most", "key"),
    Statistic(
        "distance",
        "Σ_j p_ij |i + offset - j|",
        "how far away the attended keys are, on average",
        "tokens",
        positional=True,
    ),
    Statistic(
        "normalized_distance",
        "distance_i / mean of |i + offset - j| over V_i",
        "distance as a multiple of an even spread's",
        "ratio",
        positional=True,
        needs=("distance", "visible_count", "visible_distance"),
    ),
    Statistic(
        "self_weight", "p_ij at j = i + offset", "weight on the query's own position",
        positional=True,
    ),
    Statistic(
        "previous_weight", "p_ij at j = i + offset - 1", "weight on the position just before",
        positional=True,
    ),
    Statistic(
        "next_weight", "p_ij at j = i + offset + 1", "weight on the position just after",
        positional=True,
    ),
    Statistic("first_weight", "Σ_{j<k} p_ij", "weight on the first k keys", first_keys=1),
    Statistic("sink_weight", "1 - Σ_j p_ij", "what a learned sink takes"),
    Statistic("output_norm", "‖o_i‖", "length of the output vector", "value"),
    Statistic("visible_count", "n_i", "how many keys the query may attend to", "keys"),
    Statistic(
        "visible_distance",
        "Σ_{j in V_i} |i + offset - j|",
        "sum of the distances of the keys that may be attended to",
        "tokens",
        positional=True,
    ),
)  # fmt: skip

_TAKEN = {"lse", "output", "weights", "empty_rows", "statistics"}
STATISTICS: dict[str, Statistic] = {statistic.name: statistic for statistic in _TABLE}


def first_weight(k: int = 1) -> Statistic:
    """Return the statistic ``first_weight`` over the first ``k`` keys (4 for StreamingLLM).

    Examples
    --------
    >>> import headwise
    >>> headwise.statistics.first_weight(4).first_keys
    4
    """
    return replace(STATISTICS["first_weight"], first_keys=whole_number("k", k, least=1))


AnyStatistic: TypeAlias = Statistic | SecondPass


def resolve(statistics: Any) -> list[AnyStatistic]:
    """Bring the ``statistics`` argument of `headwise.observe` into a list.

    Raises
    ------
    ValueError
        For a name that is no statistic.
    TypeError
        For anything but names and objects of this module.
    """
    if isinstance(statistics, str) and statistics == "all":
        return [*STATISTICS.values(), *SECOND_PASS.values()]
    if isinstance(statistics, str | Statistic | SecondPass):
        statistics = (statistics,)
    if not isinstance(statistics, Iterable):
        statistics = (statistics,)
    chosen: dict[str, AnyStatistic] = {}
    for entry in statistics:
        statistic = _named(entry)
        before = chosen.setdefault(statistic.name, statistic)
        if before is not statistic and not _same(before, statistic):
            raise ValueError(f"statistics names {statistic.name} twice, in different forms")
    return list(chosen.values())


def _same(one: AnyStatistic, other: AnyStatistic) -> bool:
    if isinstance(one, SecondPass) and isinstance(other, SecondPass):
        values = zip(one.options.items(), other.options.items(), strict=False)
        return one == other and all(a is b or repr(a) == repr(b) for a, b in values)
    return one == other


def _named(entry: object) -> AnyStatistic:
    if isinstance(entry, SecondPass):
        if entry.name in {*STATISTICS, *_TAKEN}:
            raise ValueError(f"name must be none that an observation has, got {entry.name!r}")
        return entry
    name = entry.name if isinstance(entry, Statistic) else entry
    if not isinstance(name, str):
        got = "a function: call it" if callable(name) else type(name).__name__
        raise TypeError(f"statistics must be names or headwise.statistics objects, got {got}")
    if name == "lse":
        raise ValueError("statistics names 'lse', which every observation has: leave it out")
    if name in SECOND_PASS:
        return SECOND_PASS[name]
    if name == "stripe":
        raise ValueError("statistics names 'stripe', which needs tokens: statistics.stripe(ids)")
    if name not in STATISTICS:
        names = [*STATISTICS, *SECOND_PASS, "all"]
        raise ValueError(f"statistics names {name!r}, expected {listing(names)}")
    known = STATISTICS[name]
    same = isinstance(entry, Statistic) and replace(entry, first_keys=known.first_keys) == known
    return entry if isinstance(entry, Statistic) and same else known
