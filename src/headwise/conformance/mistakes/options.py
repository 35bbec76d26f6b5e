"""Mistakes in causal masks, windows, grouped heads, softcap, sinks, lengths and empty inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise.conformance import plain
from headwise.conformance.cases import Array
from headwise.conformance.plain import Mistake


def _is_causal(left: int | None, right: int | None) -> bool:
    return (left, right) == (None, 0)


def _causal_band(change: Any) -> Any:
    """Make a band whose causal form differs, windows being right."""

    def band(ahead: Array, left: int | None, right: int | None) -> Array:
        return change(ahead) if _is_causal(left, right) else plain.band(ahead, left, right)  # type: ignore[no-any-return]

    return band


def _window_band(change: Any) -> Any:
    """Make a band whose windows differ, causal being right."""

    def band(ahead: Array, left: int | None, right: int | None) -> Array:
        if _is_causal(left, right):
            return plain.band(ahead, left, right)
        return plain.band(ahead, *change(left, right))

    return band


def _always(corner: str) -> Any:
    def offset(query_offset: Any, query_len: int, kv_len: int) -> Any:
        del query_offset
        return plain.offset(corner, query_len, kv_len)

    return offset


def _unless_said(corner: str) -> Any:
    def offset(query_offset: Any, query_len: int, kv_len: int) -> Any:
        said = corner if query_offset is None else query_offset
        return plain.offset(said, query_len, kv_len)

    return offset


def _exchanged(query_offset: Any, query_len: int, kv_len: int) -> Any:
    corners = {"upper_left": "lower_right", "lower_right": "upper_left"}
    if isinstance(query_offset, str):
        query_offset = corners[query_offset]
    return plain.offset(query_offset, query_len, kv_len)


def _backwards(query_offset: Any, query_len: int, kv_len: int) -> Any:
    return -plain.offset(query_offset, query_len, kv_len)


def _smaller(bound: int | None) -> int | None:
    return None if bound is None else bound - 1


def _keys_counted(left: int | None, right: int | None) -> tuple[int | None, int | None]:
    return _smaller(left) if left else left, _smaller(right) if right else right


def _larger(left: int | None, right: int | None) -> tuple[int | None, int | None]:
    return None if left is None else left + 1, None if right is None else right + 1


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
    return s.cap(s.add(scores, bias), softcap)  # type: ignore[no-any-return]


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


def _sink_added(scores: Array, sink: Array | None) -> Array:
    return plain.softmax(scores if sink is None else scores + sink, None)


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


def _wrong_side(index: Array, lengths: Array, whole: int, left: bool) -> Array:
    return plain.padded(index, lengths, whole, not left)


def _one_more(index: Array, lengths: Array, whole: int, left: bool) -> Array:
    return plain.padded(index, np.asarray(lengths) + 1, whole, left)


def _all_real(index: Array, lengths: Array, whole: int, left: bool) -> Array:
    del lengths, whole, left
    return np.ones(index.shape, dtype=bool)


def _maximum_of_nothing(scores: Array, sink: Array | None) -> Array:
    if not scores.shape[-1]:
        raise ValueError("no maximum")
    return plain.softmax(scores, sink)


SELF = "A query sees its own position's key and those before it: j <= i + query_offset."
CORNER = (
    'Let the caller say: "upper_left" lets query 0 stand at key 0, "lower_right" the last query at '
    "the last key."
)
GROUP = "Query head h reads key/value head h // group: np.repeat(key, group, axis=-3)."
CAP = "softcap * np.tanh(scores / softcap), before bias and mask."
SINK = "One more key with that score and a zero value: add exp(sink - maximum) to the sum."
MISTAKES = (
    Mistake(
        "causal ignored",
        "Causal has no effect.",
        SELF,
        {"band": _causal_band(lambda a: a < np.inf)},
    ),
    Mistake(
        "causal without the own key",
        "A query does not see its own position: the triangle is off by one.",
        f"{SELF} That is np.tril(ones), with k=0.",
        {"band": _causal_band(lambda ahead: ahead < 0)},
    ),
    Mistake(
        "causal with the next key",
        "A query sees one key too many, the next one: the triangle is off by one.",
        f"{SELF} That is np.tril(ones), with k=0.",
        {"band": _causal_band(lambda ahead: ahead <= 1)},
    ),
    Mistake(
        "causal turned around",
        "A query sees its own position's key and those after it.",
        f"{SELF} That is np.tril, not np.triu.",
        {"band": _causal_band(lambda ahead: ahead >= 0)},
    ),
    Mistake(
        "causal hides what it should show",
        "A query sees only the keys after it: the triangle is used the other way around.",
        SELF,
        {"band": _causal_band(lambda ahead: ahead > 0)},
    ),
    Mistake(
        "causal from the upper left corner, unasked",
        "Where the lengths differ and nothing is said, query 0 is put at key 0: one query against "
        "many keys then sees the first alone.",
        CORNER,
        {"offset": _unless_said("upper_left")},
    ),
    Mistake(
        "causal from the lower right corner, unasked",
        "Where the lengths differ and nothing is said, the last query is put at the last key.",
        CORNER,
        {"offset": _unless_said("lower_right")},
    ),
    Mistake(
        "always the upper left corner",
        "query_offset is ignored: query 0 always stands at key 0.",
        CORNER,
        {"offset": _always("upper_left")},
    ),
    Mistake(
        "always the lower right corner",
        "query_offset is ignored: the last query always stands at the last key.",
        CORNER,
        {"offset": _always("lower_right")},
    ),
    Mistake(
        "causal aligned to the other corner",
        "The two corners are exchanged.",
        CORNER,
        {"offset": _exchanged},
    ),
    Mistake(
        "offset with the wrong sign",
        "query_offset is subtracted where it should be added.",
        SELF,
        {"offset": _backwards},
    ),
    Mistake(
        "one mask takes the other's place",
        "Of a mask and causal (or window, lengths) only the first counts.",
        "Both must show a key: join them with &.",
        {"both": lambda one, _: one},
    ),
    Mistake(
        "the second mask takes the first one's place",
        "Of a mask and causal (or window, lengths) only the second counts.",
        "Both must show a key: join them with &.",
        {"both": lambda _, other: other},
    ),
    Mistake(
        "masks joined by or",
        "A key is visible where either mask shows it.",
        "Both must show a key: join them with &.",
        {"both": lambda one, other: one | other},
    ),
    Mistake(
        "window counts the own key",
        "A window of w holds w keys with the query's own: it is one too narrow.",
        "The own position does not count: -left <= j - i <= right.",
        {"band": _window_band(_keys_counted)},
    ),
    Mistake(
        "window without its last key",
        "The ends of the window are left out: < in place of <=.",
        "-left <= j - i <= right, both ends included.",
        {"band": _window_band(lambda left, right: (_smaller(left), _smaller(right)))},
    ),
    Mistake(
        "window too wide by one",
        "The window holds one key too many at each end.",
        "-left <= j - i <= right.",
        {"band": _window_band(_larger)},
    ),
    Mistake(
        "window to the left only",
        "The right end of the window is ignored.",
        "-left <= j - i <= right.",
        {"band": _window_band(lambda left, _: (left, None))},
    ),
    Mistake(
        "window's ends exchanged",
        "Left and right of the window are exchanged.",
        "left counts keys before the query: -left <= j - i <= right.",
        {"band": _window_band(lambda left, right: (right, left))},
    ),
    Mistake(
        "window ignored",
        "The window has no effect.",
        "-left <= j - i <= right.",
        {"band": _window_band(lambda *_: (None, None))},
    ),
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
        "The sink takes no weight: rows add up to 1.",
        SINK,
        {"softmax": _sink_ignored},
    ),
    Mistake(
        "sink added to the scores",
        "The sink is added to every score, which changes nothing.",
        SINK,
        {"softmax": _sink_added},
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
    Mistake(
        "lengths ignored",
        "Lengths have no effect: padding takes part.",
        "Key j of an item is real where j < its length.",
        {"padded": _all_real},
    ),
    Mistake(
        "padding on the wrong side",
        "The last keys count as real instead of the first, or the other way around.",
        "Right padding: key j is real where j < length.",
        {"padded": _wrong_side},
    ),
    Mistake(
        "lengths too large by one",
        "One key of the padding takes part.",
        "Key j is real where j < length, not <=.",
        {"padded": _one_more},
    ),
    Mistake(
        "no keys raise",
        "Without any key there is an error.",
        "Return zeros; scores.max(..., initial=-np.inf) has a maximum without keys.",
        {"softmax": _maximum_of_nothing},
    ),
)
