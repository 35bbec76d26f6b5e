"""Causal masks, windows and lengths: what depends on positions."""

from __future__ import annotations

from typing import Any

from suite.recipe import REPORT, VALUE_ERROR, array, attends, booleans, operands

ROBUST: dict[str, Any] = {"level": "robust"}
REFUSABLE: dict[str, Any] = {"level": "robust", "may_refuse": True}
CAUSAL: dict[str, Any] = {"causal": {}}
NAN, INF = "nan", "inf"


def window(left: int | None, right: int | None) -> dict[str, Any]:
    """Describe a window."""
    return {"window": {"left": left, "right": right}}


def lengths(keys: list[int], queries: list[int] | None = None, **more: bool) -> dict[str, Any]:
    """Describe a mask of lengths."""
    return {"lengths": {"kv_lengths": keys, "query_lengths": queries, **more}}


# Causal masks and where query 0 stands.
attends(
    "causal/square",
    "A query sees its own position's key and those before it.",
    operands(76, [1, 1], 2, 2),
    mask=CAUSAL,
    **ROBUST,
)
attends(
    "causal/heads",
    "The same in every head and batch item.",
    operands(77, [2, 2], 3, 3),
    mask=CAUSAL,
    **ROBUST,
)
wide, tall = operands(78, [1, 1], 2, 4), operands(79, [1, 1], 4, 2)
attends(
    "causal/report-08",
    "One query against 8 keys: where it stands must be said.",
    operands(80, [1, 1], 1, 8),
    mask=CAUSAL,
    expected=VALUE_ERROR,
    source=f"{REPORT} 8",
    **ROBUST,
)
attends(
    "causal/lower-right",
    "The last query sees the last key.",
    wide,
    mask=CAUSAL,
    query_offset="lower_right",
    **ROBUST,
)
attends(
    "causal/upper-left",
    "The first query sees the first key alone.",
    wide,
    mask=CAUSAL,
    query_offset="upper_left",
    **ROBUST,
)
attends(
    "causal/lower-right-tall",
    "More queries than keys: the first ones see nothing and are 0.",
    tall,
    mask=CAUSAL,
    query_offset="lower_right",
    **ROBUST,
)
attends(
    "causal/upper-left-tall",
    "More queries than keys, from the first key on.",
    tall,
    mask=CAUSAL,
    query_offset="upper_left",
    **ROBUST,
)
attends("causal/offset", "Query 0 stands at key 1.", wide, mask=CAUSAL, query_offset=1, **ROBUST)
attends(
    "causal/offset-per-item",
    "Each batch item stands where it says.",
    operands(81, [2, 1], 2, 4),
    mask=CAUSAL,
    query_offset=array([0, 2], "int64"),
    **ROBUST,
)
attends(
    "causal/report-09",
    "A boolean mask and causal together: both must show a key.",
    operands(82, [1, 1], 3, 3),
    mask={"all": [CAUSAL, booleans([[1, 1, 1], [0, 1, 1], [1, 0, 1]])]},
    source=f"{REPORT} 9",
    **ROBUST,
)
query, key, value = operands(83, [1, 1], 2, 2)
attends(
    "causal/later-nan",
    "A NaN in a later value stays out of the rows before it.",
    [query, key, {**value, "data": [1, 2, "nan", 3]}],
    mask=CAUSAL,
    **ROBUST,
)
attends(
    "causal/report-10",
    "Causal is kept when statistics are asked for: the same bits.",
    operands(84, [1, 2], 3, 3),
    mask=CAUSAL,
    expected={"law": "observed"},
    source=f"{REPORT} 10",
    **ROBUST,
)
attends(
    "causal/prefix",
    "What follows changes nothing before it.",
    operands(85, [1, 2], 6, 6),
    mask=CAUSAL,
    expected={"law": "a prefix is not changed"},
    **ROBUST,
)


# Sliding windows: the query's own position does not count.
four = operands(86, [1, 1], 4, 4)
attends("window/left", "One key before the query and its own.", four, mask=window(1, 0), **ROBUST)
attends(
    "window/report-11",
    "A window without any other mask, to both sides.",
    four,
    mask=window(1, 1),
    source=f"{REPORT} 11",
    **ROBUST,
)
attends(
    "window/right",
    "Keys after the query only as far as the window.",
    four,
    mask=window(0, 2),
    **ROBUST,
)
attends(
    "window/own-key",
    "A window of 0 on both sides: the own key alone.",
    four,
    mask=window(0, 0),
    **ROBUST,
)
attends("window/unbounded", "None is unbounded to the left.", four, mask=window(None, 1), **ROBUST)
attends(
    "window/lower-right",
    "Aligned to the last key.",
    operands(87, [1, 1], 2, 4),
    mask=window(1, 0),
    query_offset="lower_right",
    **ROBUST,
)
attends(
    "window/with-mask",
    "A window and a boolean mask together.",
    four,
    mask={"all": [window(1, 1), booleans([[1, 1, 0, 1]])]},
    **ROBUST,
)


# Padding by lengths, one for each batch item.
two = operands(88, [2, 1], 2, 3)
attends(
    "lengths/right",
    "Only the first keys of each item are real.",
    two,
    mask=lengths([1, 2]),
    **ROBUST,
)
attends("lengths/zero", "An item of length 0 is 0.", two, mask=lengths([0, 3]), **ROBUST)
attends(
    "lengths/queries",
    "A query that is not real is 0.",
    two,
    mask=lengths([3, 2], [1, 2]),
    **ROBUST,
)
attends(
    "lengths/left",
    "The last keys of each item are real.",
    two,
    mask=lengths([1, 3], left=True),
    **ROBUST,
)
attends(
    "lengths/causal",
    "Lengths and causal together.",
    operands(89, [2, 1], 3, 3),
    mask={"all": [CAUSAL, lengths([2, 3])]},
    **ROBUST,
)
query, key, value = operands(90, [2, 1], 1, 2)
attends(
    "lengths/padding-of-nan",
    "Padding may hold anything, NaN included.",
    [query, key, {**value, "data": [1, 2, "nan", "nan", *value["data"][4:]]}],
    mask=lengths([1, 2]),
    **ROBUST,
)
