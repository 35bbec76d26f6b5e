"""The attention call itself: scores, softmax, shapes, precision and memory."""

from __future__ import annotations

from typing import Any

from suite.recipe import (
    EITHER,
    REPORT,
    VALUE_ERROR,
    array,
    attends,
    filled,
    numbers,
    operands,
)

ROBUST = {"level": "robust"}


# Scale, softmax and shapes: what a textbook solution gets right.
attends("attention/one-key", "One key: its value, whatever the score.", operands(21, [1, 1], 1, 1))
attends(
    "attention/scale",
    "Scores are divided by the root of head_dim, here 2.",
    [
        array([[[[2, 0, 0, 0]]]]),
        array([[[[1, 0, 0, 0], [0, 1, 0, 0]]]]),
        array([[[[1, 2, 3, 4], [5, 6, 7, 9]]]]),
    ],
)
attends(
    "attention/equal-scores",
    "Equal scores share the weight evenly.",
    [array([[[[0, 0]]]]), array([[[[1, 2], [3, 4]]]]), array([[[[1, 0], [0, 1]]]])],
    expected=array([[[[0.5, 0.5]]]]),
)
attends(
    "attention/over-the-keys",
    "The weights of one query add up to 1 over the keys.",
    operands(22, [1, 1], 2, 2),
)
attends("attention/more-keys", "More keys than queries.", operands(23, [1, 1], 2, 4))
attends("attention/fewer-keys", "More queries than keys.", operands(24, [1, 1], 3, 2))
attends("attention/heads", "Heads do not see one another.", operands(25, [1, 3], 2, 2))
attends("attention/batch", "Batch items do not see one another.", operands(26, [2, 2], 2, 3))
attends(
    "attention/large-scores",
    "Scores of 848 do not overflow: the largest is subtracted first.",
    [array([[[[1200, 0]]]]), array([[[[1, 0], [0.999, 0]]]]), array([[[[1, 2], [3, 4]]]])],
    scale=None,
    tolerance=(1e-3, 1e-5),
)
attends(
    "attention/rows-far-apart",
    "A row of scores near -800 beside one near 800.",
    [
        array([[[[40, 0], [-40, 0]]]], "float64"),
        array([[[[28, 0], [28.01, 0]]]], "float64"),
        array([[[[1, 3], [2, 5]]]], "float64"),
    ],
)
attends(
    "attention/ties",
    "Equal largest scores share the weight, whole numbers as scores.",
    [
        array([[[[3, 0]]]]),
        array([[[[1, 5], [1, -5], [0, 0]]]]),
        array([[[[1, 0], [2, 5], [4, 7]]]]),
    ],
)
attends(
    "attention/report-17",
    "Values may have another dimension than keys.",
    operands(27, [1, 2], 2, 3, value_dim=3),
    source=f"{REPORT} 17",
)
attends("attention/rank-2", "No leading dimensions.", operands(28, [], 2, 3))
attends("attention/rank-3", "One leading dimension.", operands(29, [2], 2, 3))
attends(
    "attention/float64",
    "float64 in, float64 out, in full precision.",
    operands(31, [1, 2], 2, 3, dtype="float64"),
    also=["dtype"],
)
attends(
    "attention/unchanged",
    "The inputs are as they were.",
    operands(32, [1, 1], 2, 2),
    also=["unchanged"],
)


# Ranks, layouts and types beyond a textbook's.
refusable: dict[str, Any] = {"may_refuse": True, **ROBUST}
attends("attention/rank-5", "Three leading dimensions.", operands(33, [2, 1, 2], 2, 2), **ROBUST)
attends(
    "attention/float32",
    "float32 in, float32 out.",
    operands(34, [1, 1], 2, 2),
    also=["dtype"],
    **ROBUST,
)
shared = [numbers(35, 2, 1, 2, 2), numbers(36, 1, 1, 2, 2), numbers(37, 1, 1, 2, 2)]
attends(
    "attention/broadcast",
    "Leading dimensions broadcast: one item of keys for two of queries.",
    shared,
    **refusable,
)
lists = [{**x, "dtype": "float64", "layout": "list"} for x in operands(38, [], 2, 2)]
attends("attention/lists", "Nested lists of numbers count as float64.", lists, **refusable)
whole = [
    array([[1, 2], [0, 1]], "int64"),
    array([[1, 0], [1, 1]], "int64"),
    array([[1, 2], [3, 4]], "int64"),
]
attends(
    "attention/whole-numbers",
    "Whole numbers give float64, as where NumPy divides.",
    whole,
    also=["dtype"],
    **refusable,
)
for layout in ("transposed", "reversed", "swapped"):
    laid = [{**x, "layout": layout} for x in operands(39, [1, 1], 2, 3)]
    what = "the other byte order" if layout == "swapped" else f"{layout} memory"
    attends(
        f"attention/{layout}-memory",
        f"Inputs in {what} give the same numbers.",
        laid,
        may_refuse=layout == "swapped",
        **ROBUST,
    )
fixed = [{**x, "layout": "read-only"} for x in operands(40, [1, 1], 2, 2)]
attends(
    "attention/report-22",
    "Read-only inputs are accepted.",
    fixed,
    source=f"{REPORT} 22",
    **ROBUST,
)
query, key, value = operands(41, [1, 1], 3, 3)
query["data"][2] = "nan"
attends(
    "attention/report-14",
    "A NaN in a query stays in its row, and does not become 0.",
    [query, key, value],
    source=f"{REPORT} 14",
    **ROBUST,
)
query, key, value = operands(42, [1, 1], 2, 3)
value["data"][0] = "nan"
attends(
    "attention/nan-value",
    "A NaN in a visible value reaches the rows that see it, in its column.",
    [query, key, value],
    **ROBUST,
)


# The scale as an option.
four = operands(43, [1, 1], 2, 3)
attends(
    "attention/scale-option",
    "A scale of one's own takes the default's place.",
    four,
    scale=0.5,
    **ROBUST,
)
attends(
    "attention/scale-zero",
    "A scale of 0 is a scale: all keys count alike.",
    four,
    scale=0.0,
    may_refuse=True,
    **ROBUST,
)
attends(
    "attention/scale-negative",
    "A negative scale turns the order of the keys around.",
    four,
    scale=-1.0,
    may_refuse=True,
    **ROBUST,
)


# Inputs that cannot be meant.
two, three = numbers(44, 1, 1, 2, 2), numbers(45, 1, 1, 3, 2)
wide, half = numbers(46, 1, 1, 2, 3), numbers(47, 1, 1, 2, 1)
attends(
    "attention/dims-differ",
    "A key of another head_dim than the query's is refused.",
    [two, wide, two],
    expected=VALUE_ERROR,
    **ROBUST,
)
attends(
    "attention/lengths-differ",
    "Keys and values of different lengths are refused.",
    [two, three, two],
    expected=VALUE_ERROR,
    **ROBUST,
)
attends(
    "attention/dims-broadcast",
    "A head_dim of 1 does not broadcast.",
    [two, half, two],
    expected=VALUE_ERROR,
    **ROBUST,
)
complex_query = {**two, "dtype": "complex64"}
attends(
    "attention/complex",
    "Complex numbers are refused.",
    [complex_query, two, two],
    expected=EITHER,
    **ROBUST,
)


# Many keys, batches and threads.
many = [
    filled([1, 1, 1, 2], [0, 0]),
    filled([1, 1, 32768, 2], [1, 2, 3]),
    filled([1, 1, 32768, 1], [0, 1, 2, 3]),
]
attends(
    "attention/report-19",
    "One query against 32,768 keys.",
    many,
    expected=array([[[[1.5]]]]),
    source=f"{REPORT} 19",
    **ROBUST,
)
law = {"expected": {"law": "items alone"}, "source": f"{REPORT} 20", **ROBUST}
attends(
    "attention/report-20",
    "One item alone has the same bits as inside a batch of 7.",
    operands(48, [7, 1], 3, 5, 4),
    **law,
)
law = {"expected": {"law": "threads"}, "source": f"{REPORT} 21", **ROBUST}
attends(
    "attention/report-21",
    "1, 2 and 3 threads give the same bits.",
    [
        filled([1, 2, 64, 8], [0.3, -0.7, 1.1]),
        filled([1, 2, 96, 8], [0.2, 0.9, -0.4, 0.6]),
        filled([1, 2, 96, 8], [1, -2, 0.5, 0.25, 3]),
    ],
    **law,
)
