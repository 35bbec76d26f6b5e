"""Numbers of a head: what they mean, and how they come out of sums.

A measure is one number for each head. Most are means of a row statistic over the queries that see
at least one key; the rest ask for particular weights. The definitions follow the literature:
previous-token, duplicate-token and induction heads (Olsson et al. 2022; Wang et al. 2022),
attention sinks (Xiao et al. 2023; Gu et al. 2024), confidence and positional heads (Voita et al.
2019), patterns (Kovaleva et al. 2019).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise.lens.sums import REACH, SINK, VERTICAL_KEYS
from headwise.statistics import STATISTICS

Tables = Mapping[str, Any]  # sums of all layers, (num_layers, num_heads, ...)


@dataclass(frozen=True)
class Measure:
    """One number for each head.

    Attributes
    ----------
    name, formula, meaning, unit
        As shown in tables and pages.
    of
        Makes it, ``(num_layers, num_heads)``, from the sums that `needs` names.
    needs
        Without these sums there is no such number.
    kind
        The kind of head that has much of it, where there is a word for that.
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
    unit: str
    of: Callable[[Tables], Array]
    needs: tuple[str, ...]
    kind: str = ""
    least: float = 0.0
    group: str = "Other"
    source: str = ""


def per(total: Any, count: Any) -> Array:
    """Divide sums by counts; NaN where nothing was counted."""
    total, count = np.asarray(total, np.float64), np.asarray(count)
    mean = np.full(total.shape, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _mean(total: str, count: str, name: str, meaning: str, **more: Any) -> Measure:
    unit, formula = more.pop("unit", "weight"), more.pop("formula")
    return Measure(
        name, formula, meaning, unit, lambda s: per(s[total], s[count]), (total, count), **more
    )


def _mean_of(statistic: str, count: str = "rows", name: str | None = None, **more: Any) -> Measure:
    s = STATISTICS[statistic]
    return _mean(
        statistic,
        count,
        name or statistic,
        f"{s.meaning}, mean over the queries",
        formula=f"mean over i of {s.formula}",
        unit=s.unit,
        **more,
    )


def _fixed_offset(s: Tables) -> Array:
    return np.asarray(s["argmax_offsets"].argmax(axis=-1) - REACH)


def _nearest(s: Tables) -> Array:
    """Return the largest cosine with another head of the layer."""
    cosine = similarity(s)
    own = np.arange(cosine.shape[-1])
    cosine[..., own, own] = -np.inf
    largest = cosine.max(axis=-1, initial=-np.inf)
    return np.where(np.isfinite(largest), largest, np.nan)


def similarity(s: Tables) -> Array:
    """Return the cosines between heads of a layer, ``(num_layers, num_heads, num_heads)``."""
    products = s["products"]
    lengths = np.sqrt(np.diagonal(products, axis1=-2, axis2=-1))
    return per(products, lengths[..., :, None] * lengths[..., None, :])


def _close(s: Tables) -> Array:
    return per(s["self_weight"] + s["previous_weight"] + s["next_weight"], s["placed_rows"])


_SPREAD, _PLACE, _COPIES, _SINKS, _OUTPUT = "Spread", "Place", "Copies of a token", "Sinks", "Size"

_TABLE = (
    _mean_of("entropy", group=_SPREAD, source="Clark et al. 2019"),
    _mean_of("normalized_entropy", kind="broad", least=0.7, group=_SPREAD),
    _mean_of("max_weight", name="confidence", group=_SPREAD, source="Voita et al. 2019"),
    Measure(
        "nearest_head",
        "max over other heads b of Σ p^a p^b / (‖p^a‖ ‖p^b‖)",
        "how alike the most similar head of the layer looks",
        "cosine",
        _nearest,
        ("products",),
        group=_SPREAD,
    ),
    _mean_of("distance", "placed_rows", group=_PLACE, source="Vig and Belinkov 2019"),
    _mean_of("normalized_distance", "placed_rows", group=_PLACE),
    _mean(
        "previous_weight",
        "later_rows",
        "previous_token",
        "weight on the token just before",
        formula="mean over i ≥ 1 of p_{i,i-1}",
        kind="previous-token",
        least=0.3,
        group=_PLACE,
        source="Olsson et al. 2022",
    ),
    _mean_of(
        "self_weight",
        "placed_rows",
        "self_token",
        kind="self",
        least=0.3,
        group=_PLACE,
        source="Kovaleva et al. 2019",
    ),
    _mean_of(
        "next_weight", "placed_rows", "next_token", kind="next-token", least=0.3, group=_PLACE
    ),
    Measure(
        "positional",
        "largest share of queries i whose argmax_j p_ij is i - d, over fixed distances d",
        "how often the largest weight sits at one fixed distance",
        "share",
        lambda s: per(s["argmax_offsets"].max(axis=-1), s["placed_rows"]),
        ("argmax_offsets", "placed_rows"),
        kind="positional",
        least=0.9,
        group=_PLACE,
        source="Voita et al. 2019",
    ),
    Measure(
        "close_by",
        "mean over i of p_{i,i-1} + p_{i,i} + p_{i,i+1}",
        "weight on the token itself and its two neighbours",
        "weight",
        _close,
        ("self_weight", "previous_weight", "next_weight", "placed_rows"),
        group=_PLACE,
        source="Kovaleva et al. 2019",
    ),
    _mean(
        "induction",
        "copied_rows",
        "induction",
        "weight on what followed earlier copies of the token",
        formula="mean over i with an earlier copy of Σ_{j≤i} p_ij [token_{j-1} = token_i]",
        kind="induction",
        least=0.2,
        group=_COPIES,
        source="Olsson et al. 2022",
    ),
    _mean(
        "induction_mass",
        "induction_pairs",
        "induction_diagonal",
        "weight on the token after the copy, in a text of random tokens that is read twice",
        formula="mean of the diagonal p_{i,i-T+1}, T tokens repeated",
        kind="induction (diagonal)",
        least=0.2,
        group=_COPIES,
        source="TransformerLens, head detector",
    ),
    _mean(
        "duplicate_token",
        "copied_rows",
        "duplicate_token",
        "weight on earlier copies of the token",
        formula="mean over i with an earlier copy of Σ_{j<i} p_ij [token_j = token_i]",
        kind="duplicate-token",
        least=0.2,
        group=_COPIES,
        source="Wang et al. 2022",
    ),
    _mean(
        "first_weight",
        "later_rows",
        "first_key",
        "weight on the first token, the attention sink",
        formula="mean over i ≥ 1 of p_{i,0}",
        kind="first-key (sink)",
        least=0.5,
        group=_SINKS,
        source="Xiao et al. 2023",
    ),
    Measure(
        "sink_rate",
        f"share of texts with Σ_i p_i0 / T > {SINK}, T the queries that see key 0",
        "how often the first token receives so much that it is a sink",
        "share",
        lambda s: per(s["sink_texts"][..., 0], s["received_texts"][..., 0]),
        ("sink_texts", "received_texts"),
        group=_SINKS,
        source="Gu et al. 2024",
    ),
    _mean_of("sink_weight", group=_SINKS, source="Agarwal et al. 2025 (gpt-oss)"),
    Measure(
        "vertical",
        f"share of all weight on the {VERTICAL_KEYS} keys of each text that receive most",
        "how much of the weight stands in a few columns",
        "share",
        lambda s: per(s["vertical_mass"], s["rows"]),
        ("vertical_mass", "rows"),
        group=_SINKS,
        source="Kovaleva et al. 2019",
    ),
    _mean_of("output_norm", group=_OUTPUT, source="Kobayashi et al. 2020"),
    _mean_of("max_score", group=_OUTPUT),
    Measure(
        "largest_score",
        "max over i and j of s_ij",
        "the largest score anywhere, as QK-clip wants it",
        "score",
        lambda s: np.where(s["rows"] > 0, s["largest_score"], np.nan),
        ("largest_score", "rows"),
        group=_OUTPUT,
        source="Kimi Team 2025 (MuonClip)",
    ),
)  # fmt: skip

MEASURES: dict[str, Measure] = {measure.name: measure for measure in _TABLE}
KINDS: tuple[Measure, ...] = tuple(measure for measure in _TABLE if measure.kind)

PATTERNS = ("vertical", "diagonal", "vertical + diagonal", "block", "heterogeneous")


_ELSE_LEFT_OUT = {"sink_weight", "next_token"}  # where no head has any: no sinks, or causal


def numbers_of(s: Tables) -> dict[str, Array]:
    """Return every measure that the sums can give, ``(num_layers, num_heads)`` each."""
    tables = {}
    for name, measure in MEASURES.items():
        if all(need in s for need in measure.needs):
            table = measure.of(s)
            impossible = name in _ELSE_LEFT_OUT and not table.any()
            if not np.isnan(table).all() and not impossible:
                tables[name] = table
    return tables


def patterns_of(numbers: Mapping[str, Array]) -> Array:
    """Name the pattern of each head by rule, after Kovaleva et al. 2019.

    Vertical: at least half of the weight on three keys. Diagonal: at least half on the token itself
    and its two neighbours. Block: neither, and keys on average at most a quarter as far away as an
    even spread's. Heterogeneous: the rest; "" where nothing was seen.
    """
    shape = next(iter(numbers.values())).shape
    none = np.full(shape, np.nan)
    vertical = numbers.get("vertical", none) >= 0.5
    diagonal = numbers.get("close_by", none) >= 0.5
    block = numbers.get("normalized_distance", none) <= 0.25
    names = np.select(
        [vertical & diagonal, vertical, diagonal, block],
        ["vertical + diagonal", "vertical", "diagonal", "block"],
        "heterogeneous",
    )
    return np.where(np.isnan(numbers.get("entropy", none)), "", names)


def fixed_offsets_of(s: Tables, numbers: Mapping[str, Array]) -> Array:
    """Return the distance that `positional` found, NaN where no query was seen."""
    return np.where(np.isnan(numbers["positional"]), np.nan, _fixed_offset(s))
