"""Mistakes in grouped heads, softcap and sinks."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise.conformance import plain
from headwise.conformance.cases import Array
from headwise.conformance.plain import Mistake


def _check(x: Array, query: Array) -> bool:
    if min(x.ndim, query.ndim) < 4 or x.shape[-3] == query.shape[-3]:
        return False
    if not x.shape[-3] or query.shape[-3] % x.shape[-3]:
        raise ValueError("heads do not divide")
    return True


def _interleaved(x: Array, query: Array) -> Array:
    if not _check(x, query):
        return x
    return np.concatenate([x] * (query.shape[-3] // x.shape[-3]), axis=-3)


def _first_head(x: Array, query: Array) -> Array:
    return np.repeat(x[..., :1, :, :], query.shape[-3], axis=-3) if _check(x, query) else x


def _mean_head(x: Array, query: Array) -> Array:
    if not _check(x, query):
        return x
    return np.repeat(x.mean(axis=-3, keepdims=True), query.shape[-3], axis=-3)


def _remainder_cut(x: Array, query: Array) -> Array:
    if min(x.ndim, query.ndim) < 4:
        return x
    heads = np.arange(query.shape[-3]) * x.shape[-3] // max(query.shape[-3], 1)
    return np.asarray(np.take(x, heads, axis=-3))


def _cap_last(s: Any, scores: Array, softcap: float | None, bias: Array | None) -> Array:
    return s.cap(s.add(scores, bias), softcap)


def _shown(scores: Array, visible: Array, bias: Array | None) -> Array:
    """Hide by the mask alone: what the bias hid, the cap brought back."""
    del bias
    return np.where(visible, scores, -np.inf)


def _capped_late(scores: Array, softcap: float | None) -> Array:
    return plain.cap(scores, softcap)


def _tanh_alone(scores: Array, softcap: float | None) -> Array:
    return scores if softcap is None else np.tanh(scores / softcap)


def _undivided(scores: Array, softcap: float | None) -> Array:
    return scores if softcap is None else softcap * np.tanh(scores)


def _clipped(scores: Array, softcap: float | None) -> Array:
    return scores if softcap is None else np.clip(scores, -softcap, softcap)


def _no_check(scores: Array, softcap: float | None) -> Array:
    return scores if softcap is None else softcap * np.tanh(scores / np.float64(softcap))


def _zero_is_off(scores: Array, softcap: float | None) -> Array:
    return plain.cap(scores, softcap or None)


def _sink_ignored(scores: Array, sink: Array | None) -> Array:
    del sink
    return plain.softmax(scores, None)


def _sink_as_weight(scores: Array, sink: Array | None) -> Array:
    """Take the sink for a weight: add it, not its exponential, to the sum."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / (total if sink is None else total + sink))


def _sink_after_shift(scores: Array, sink: Array | None) -> Array:
    """Add e^sink to a sum that was shifted by the largest score."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isneginf(largest), 0, largest))
    total = weights.sum(axis=-1, keepdims=True)
    total = total if sink is None else total + np.exp(sink)
    return np.asarray(weights / np.where(total == 0, 1, total))


GROUP = "Query head h reads key/value head h // group: np.repeat(key, group, axis=-3)."
CAP = "softcap * np.tanh(scores / softcap), before bias and mask."
SINK = "One more key with that score and a zero value: add exp(sink - maximum) to the sum."
MISTAKES = (
    Mistake(
        "grouped heads interleaved",
        "Query head h reads key/value head h % num_kv_heads.",
        f"{GROUP} np.tile takes the wrong order.",
        {"share": _interleaved},
    ),
    Mistake(
        "first key/value head for all",
        "All query heads read key/value head 0.",
        GROUP,
        {"share": _first_head},
    ),
    Mistake(
        "key/value heads averaged",
        "Key/value heads are averaged before they are shared.",
        GROUP,
        {"share": _mean_head},
    ),
    Mistake(
        "heads that do not divide are shared anyway",
        "A number of key/value heads that does not divide the query's is accepted.",
        "Raise ValueError where num_heads % num_kv_heads is not 0.",
        {"share": _remainder_cut},
    ),
    Mistake(
        "softcap after the bias",
        "The cap comes after the bias, bounds it, and revives keys that -inf hides.",
        CAP,
        {"score": _cap_last, "hide": _shown},
    ),
    Mistake(
        "softcap after the mask",
        "The cap comes last, after bias and mask: -inf becomes -softcap, and hidden keys are back.",
        CAP,
        {"score": lambda s, scores, _, bias: s.add(scores, bias), "late": _capped_late},
    ),
    Mistake("softcap ignored", "softcap has no effect.", CAP, {"cap": lambda scores, _: scores}),
    Mistake(
        "softcap without its factor",
        "tanh(scores / softcap) is not multiplied by softcap.",
        CAP,
        {"cap": _tanh_alone},
    ),
    Mistake(
        "softcap without its divisor",
        "The scores are not divided by softcap inside tanh.",
        CAP,
        {"cap": _undivided},
    ),
    Mistake(
        "softcap by clipping",
        "The scores are cut off at the cap instead of bent.",
        CAP,
        {"cap": _clipped},
    ),
    Mistake(
        "softcap of 0 switches it off",
        "A softcap of 0 counts as none, in silence.",
        "None is no cap; refuse 0.",
        {"cap": _zero_is_off},
    ),
    Mistake(
        "softcap not checked",
        "A softcap of 0 is divided by.",
        "Refuse what is not above 0.",
        {"cap": _no_check},
    ),
    Mistake(
        "sink ignored",
        "The sink takes no weight, as where it is added to every score: rows add up to 1.",
        SINK,
        {"softmax": _sink_ignored},
    ),
    Mistake(
        "sink not an exponential",
        "The sink itself, not e^sink, is added to the sum.",
        SINK,
        {"softmax": _sink_as_weight},
    ),
    Mistake(
        "sink not shifted",
        "e^sink is added to a sum from which the largest score was subtracted.",
        SINK,
        {"softmax": _sink_after_shift},
    ),
)
