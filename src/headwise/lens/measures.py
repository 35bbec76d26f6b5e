"""Numbers of a head: what they mean, and how they come out of an observation.

A measure is one number for each head. Most are means of a row statistic over the queries that see
at least one key; the rest ask for particular weights. The definitions follow the literature:
previous-token, duplicate-token and induction heads (Olsson et al. 2022; Wang et al. 2022),
attention sinks (Xiao et al. 2023; Gu et al. 2024), confidence (Voita et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from headwise.statistics import STATISTICS

if TYPE_CHECKING:
    from headwise._arrays import Array
    from headwise.observation import Observation


@dataclass(frozen=True)
class Measure:
    """One number for each head.

    Attributes
    ----------
    name, formula, meaning, unit
        As shown in tables and pages.
    kind
        The kind of head that has much of it, where there is a word for that.
    row_statistic
        The row statistic it is a mean of, if it is one.
    least
        The least number at which a head is called of that kind.
    group
        The heading that choosers list it under.
    source
        Where it was defined, or where it is described best.
    """

    name: str
    formula: str
    meaning: str
    unit: str = "weight"
    kind: str = ""
    row_statistic: str | None = None
    least: float = 0.0
    group: str = "Other"
    source: str = ""


def _mean_of(
    statistic: str,
    name: str | None = None,
    kind: str = "",
    least: float = 0.0,
    *,
    group: str,
    source: str = "",
) -> Measure:
    s = STATISTICS[statistic]
    return Measure(
        name or statistic,
        f"mean over i of {s.formula}",
        f"{s.meaning}, mean over the queries",
        s.unit,
        kind,
        statistic,
        least,
        group,
        source,
    )


_SPREAD, _PLACE, _COPIES, _OUTPUT = "Spread", "Place", "Copies of a token", "Output"


_TABLE = (
    _mean_of("entropy", group=_SPREAD, source="Clark et al. 2019"),
    _mean_of("normalized_entropy", kind="broad", least=0.7, group=_SPREAD),
    _mean_of("max_weight", name="confidence", group=_SPREAD, source="Voita et al. 2019"),
    _mean_of("distance", group=_PLACE, source="Vig and Belinkov 2019"),
    Measure(
        "previous_token",
        "mean over i ≥ 1 of p_{i,i-1}",
        "weight on the token just before",
        kind="previous-token",
        least=0.3,
        group=_PLACE,
        source="Olsson et al. 2022",
    ),
    Measure(
        "induction",
        "mean over i with an earlier copy of Σ_j p_ij [token_{j-1} = token_i]",
        "weight on what followed earlier copies of the token",
        kind="induction",
        least=0.2,
        group=_COPIES,
        source="Olsson et al. 2022",
    ),
    Measure(
        "duplicate_token",
        "mean over i with an earlier copy of Σ_{j<i} p_ij [token_j = token_i]",
        "weight on earlier copies of the token",
        kind="duplicate-token",
        least=0.2,
        group=_COPIES,
        source="Wang et al. 2022",
    ),
    Measure(
        "first_key",
        "mean over i ≥ 1 of p_{i,0}",
        "weight on the first token, the attention sink",
        kind="first-key (sink)",
        least=0.5,
        group=_PLACE,
        source="Xiao et al. 2023; Gu et al. 2024",
    ),
    _mean_of(
        "self_weight",
        name="self_token",
        kind="self",
        least=0.3,
        group=_PLACE,
        source="Kovaleva et al. 2019",
    ),
    _mean_of("output_norm", group=_OUTPUT, source="Kobayashi et al. 2020"),
)

MEASURES: dict[str, Measure] = {measure.name: measure for measure in _TABLE}
KINDS: tuple[Measure, ...] = tuple(measure for measure in _TABLE if measure.kind)
ROW_STATISTICS = (
    *(m.row_statistic for m in _TABLE if m.row_statistic),
    "previous_weight",
    "first_weight",
)


def row_measures(observation: Observation, first_position: int) -> dict[str, Array]:
    """Return the measures that are means of row statistics, each ``(num_heads,)``.

    ``observation`` is of one text, ``(1, num_heads, query_len)``, whose first query stands at
    ``first_position``. Measures that were not observed are left out.
    """
    seen = ~np.isneginf(observation.lse[0])
    numbers = {
        measure.name: mean_over(getattr(observation, measure.row_statistic)[0], seen)
        for measure in MEASURES.values()
        if measure.row_statistic in observation.statistics
    }
    later = seen & (np.arange(seen.shape[-1]) + first_position > 0)
    for name, statistic in (("previous_token", "previous_weight"), ("first_key", "first_weight")):
        if statistic in observation.statistics:
            numbers[name] = mean_over(getattr(observation, statistic)[0], later)
    return numbers


def mean_over(rows: Array, which: Array) -> Array:
    """Return the mean of ``rows`` ``(num_heads, query_len)`` over the rows in ``which``."""
    count = np.maximum(np.count_nonzero(which, axis=-1), 1)
    return np.asarray(np.where(which, rows, 0).sum(axis=-1, dtype=np.float64) / count)


class Copies:
    """Where each token of a text stood before: the stripes that copying heads attend to.

    Parameters
    ----------
    token_ids
        ``(seq_len,)``: equal numbers are equal tokens.
    """

    def __init__(self, token_ids: Array) -> None:
        self.ids = np.asarray(token_ids)
        _, first = np.unique(self.ids, return_index=True)
        self.repeated = np.ones(len(self.ids), dtype=bool)
        self.repeated[first] = False

    def duplicates(self, queries: slice) -> Array:
        """Return True at (i, j) where key j holds an earlier copy of token i."""
        rows = np.arange(len(self.ids))[queries, None]
        earlier = np.arange(len(self.ids)) < rows
        return np.asarray((self.ids[queries, None] == self.ids) & earlier)

    def successors(self, queries: slice) -> Array:
        """Return True at (i, j) where key j follows an earlier copy of token i."""
        after = np.zeros((len(self.ids[queries]), len(self.ids)), dtype=bool)
        after[:, 1:] = self.duplicates(queries)[:, :-1]
        return after
