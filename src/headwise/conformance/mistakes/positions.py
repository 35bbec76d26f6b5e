"""Mistakes in causal masks, windows and lengths."""

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
        return change(ahead) if _is_causal(left, right) else plain.band(ahead, left, right)

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


def _instead(*, dense: bool) -> Any:
    """Take one of an array and a structured mask alone."""

    def both(one: Array, other: Array, is_dense: tuple[bool, bool]) -> Array:
        if is_dense[0] == is_dense[1]:
            return one & other
        return one if is_dense[0] == dense else other

    return both


def _smaller(bound: int | None) -> int | None:
    return None if bound is None else bound - 1


def _keys_counted(left: int | None, right: int | None) -> tuple[int | None, int | None]:
    return _smaller(left) if left else left, _smaller(right) if right else right


def _larger(left: int | None, right: int | None) -> tuple[int | None, int | None]:
    return None if left is None else left + 1, None if right is None else right + 1


def _wrong_side(index: Array, lengths: Array, whole: int, left: bool) -> Array:
    return plain.padded(index, lengths, whole, not left)


def _one_more(index: Array, lengths: Array, whole: int, left: bool) -> Array:
    return plain.padded(index, np.asarray(lengths) + 1, whole, left)


def _all_real(index: Array, lengths: Array, whole: int, left: bool) -> Array:
    del lengths, whole, left
    return np.ones(index.shape, dtype=bool)


SELF = "A query sees its own position's key and those before it: j <= i + query_offset."
CORNER = (
    'Let the caller say: "upper_left" lets query 0 stand at key 0, "lower_right" the last query at '
    "the last key."
)
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
        "a mask takes the place of causal",
        "Where a mask is given, too, causal (or window, lengths) has no effect.",
        "Both must show a key: join them with &.",
        {"both": _instead(dense=True)},
    ),
    Mistake(
        "causal takes the place of the mask",
        "Where there is causal (or window, lengths), a mask given, too, has no effect.",
        "Both must show a key: join them with &.",
        {"both": _instead(dense=False)},
    ),
    Mistake(
        "mask and causal joined by or",
        "A key is visible where either the mask or causal (or window, lengths) shows it.",
        "Both must show a key: join them with &.",
        {"both": lambda one, other, dense: one | other if any(dense) else one & other},
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
)
