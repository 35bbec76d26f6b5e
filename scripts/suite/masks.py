"""Masks of truth values, and masks and biases that are added."""

from __future__ import annotations

from typing import Any

from suite.recipe import REPORT, VALUE_ERROR, array, attends, booleans, filled, operands

ROBUST: dict[str, Any] = {"level": "robust"}
REFUSABLE: dict[str, Any] = {"level": "robust", "may_refuse": True}
CAUSAL: dict[str, Any] = {"causal": {}}
NAN, INF = "nan", "inf"


def spoiled(spec: dict[str, Any], number: str) -> dict[str, Any]:
    """Put a NaN or an infinity in the second key's place."""
    data = list(spec["data"])
    data[2] = number
    return {**spec, "data": data}


# Boolean masks: True may attend.
two = operands(51, [1, 1], 1, 2)
attends(
    "mask/polarity",
    "True may attend: the only key that may gives its value.",
    two,
    mask=booleans([[1, 0]]),
)
attends("mask/second-key", "The first key is hidden.", two, mask=booleans([[0, 1]]))
attends(
    "mask/rest-shares",
    "The visible keys share the whole weight.",
    operands(52, [1, 1], 2, 3),
    mask=booleans([[1, 1, 0], [0, 1, 1]]),
)
attends(
    "mask/one-sided",
    "Queries and keys are not exchanged.",
    operands(53, [1, 1], 2, 2),
    mask=booleans([[1, 1], [0, 1]]),
)
attends(
    "mask/all-true",
    "A mask that hides nothing changes nothing.",
    operands(54, [1, 1], 2, 2),
    mask=booleans([[1, 1], [1, 1]]),
)
attends(
    "mask/negative-scores",
    "A visible key keeps all the weight, however low its score.",
    [array([[[[9, 0]]]]), array([[[[-9, 0], [0, 9]]]]), array([[[[1, 2], [30, 40]]]])],
    mask=booleans([[1, 0]]),
    expected=array([[[[1, 2]]]]),
)
attends(
    "mask/cross-lengths",
    "More keys than queries.",
    operands(55, [1, 1], 2, 4),
    mask=booleans([[1, 0, 1, 1], [0, 1, 1, 0]]),
)
attends(
    "mask/per-item",
    "One mask for each batch item.",
    operands(56, [2, 2], 2, 3),
    mask=booleans([[[[1, 1, 0]]], [[[0, 1, 1]]]]),
)
attends(
    "mask/per-head",
    "One mask for each head.",
    operands(57, [1, 2], 2, 2),
    mask=booleans([[[1, 0], [1, 1]], [[0, 1], [1, 1]]]),
)
attends(
    "mask/lower-triangle",
    "A lower triangle: no query sees a later key.",
    operands(58, [1, 2], 3, 3),
    mask=booleans([[1, 0, 0], [1, 1, 0], [1, 1, 1]]),
)
attends("mask/rank-3", "Without a batch.", operands(59, [2], 2, 2), mask=booleans([[1, 0], [1, 1]]))
big = [*operands(60, [1, 1], 2, 3)[:2], array([[[[1, 2], [3, 4], [1e30, 1e30]]]])]
attends(
    "mask/report-02",
    "A hidden value of 1e30 never shows.",
    big,
    mask=booleans([[1, 1, 0]]),
    source=f"{REPORT} 2",
)


# What hidden keys must not do.
query, key, value = operands(61, [1, 1], 2, 3)
hidden = {"mask": booleans([[1, 0, 1]]), **ROBUST}
attends(
    "mask/report-01",
    "A row that sees no key is 0.",
    operands(62, [1, 1], 2, 2),
    mask=booleans([[1, 1], [0, 0]]),
    source=f"{REPORT} 1",
    **ROBUST,
)
attends(
    "mask/all-hidden",
    "A mask of nothing but False gives zeros.",
    operands(63, [1, 1], 1, 2),
    mask=booleans([[0, 0]]),
    **ROBUST,
)
attends(
    "mask/report-16",
    "A batch item of length 0 is 0; the others are as they are alone.",
    operands(64, [3, 1], 2, 3),
    mask=booleans([[[[1, 1, 0]]], [[[0, 0, 0]]], [[[1, 1, 1]]]]),
    source=f"{REPORT} 16",
    **ROBUST,
)
attends(
    "mask/report-03",
    "A NaN in a hidden key stays out.",
    [query, spoiled(key, NAN), value],
    source=f"{REPORT} 3",
    **hidden,
)
attends(
    "mask/inf-key",
    "An infinity in a hidden key stays out.",
    [query, spoiled(key, INF), value],
    **hidden,
)
attends(
    "mask/nan-value",
    "A NaN in a hidden value stays out: 0 times NaN is NaN.",
    [query, key, spoiled(value, NAN)],
    **hidden,
)
attends(
    "mask/inf-value",
    "An infinity in a hidden value stays out.",
    [query, key, spoiled(value, INF)],
    **hidden,
)
attends(
    "mask/high-hidden-score",
    "A hidden key stays hidden beside scores of -20,000.",
    [array([[[[-200, 0]]]]), array([[[[200, 0], [0, 0]]]]), array([[[[1, 2], [3, 4]]]])],
    mask=booleans([[1, 0]]),
    expected=array([[[[1, 2]]]]),
    **ROBUST,
)
attends(
    "mask/scores-of-billions",
    "A hidden key stays hidden beside scores of -2.5 billion.",
    [array([[[[60000, 0]]]]), array([[[[-60000, 0], [0, 0]]]]), array([[[[1, 2], [3, 4]]]])],
    mask=booleans([[1, 0]]),
    expected=array([[[[1, 2]]]]),
    **ROBUST,
)


# Shapes and types of masks.
attends(
    "mask/row-for-all",
    "A mask (kv_len,) holds for all queries.",
    operands(65, [1, 2], 2, 3),
    mask=booleans([1, 0, 1]),
    **REFUSABLE,
)
attends(
    "mask/column",
    "A mask (query_len, 1) holds for all keys; a hidden query is 0.",
    operands(66, [1, 1], 2, 2),
    mask=booleans([[1], [0]]),
    **ROBUST,
)
attends(
    "mask/whole-numbers",
    "Whole numbers 0 and 1, as tokenizers give them: 1 may attend.",
    operands(67, [1, 1], 2, 3),
    mask=array([[1, 0, 1]], "int64"),
    **REFUSABLE,
)
attends(
    "mask/other-numbers",
    "Whole numbers beside 0 and 1 are refused.",
    operands(68, [1, 1], 2, 2),
    mask=array([[1, 2]], "int64"),
    expected=VALUE_ERROR,
    **ROBUST,
)
attends(
    "mask/report-06",
    "A mask (batch, queries, keys) with 8 heads is refused: its first "
    "dimension would be taken for heads.",
    operands(69, [2, 8], 2, 2),
    mask=booleans([[[1, 0], [1, 1]], [[1, 1], [1, 1]]]),
    expected=VALUE_ERROR,
    source=f"{REPORT} 6",
    **ROBUST,
)
attends(
    "mask/too-many-keys",
    "A mask for more keys than there are is refused.",
    operands(70, [1, 1], 2, 2),
    mask=booleans([[1, 1, 0]]),
    expected=VALUE_ERROR,
    **ROBUST,
)
# Two rows, padded on the left by 0 and 1: the real positions give what they give unpadded.
padded = booleans([[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]], [[[0, 0, 0], [0, 1, 0], [0, 1, 1]]]])
attends(
    "mask/report-23",
    "A batch of rows padded on the left equals the unpadded ones.",
    operands(71, [2, 1], 3, 3),
    mask=padded,
    source=f"{REPORT} 23",
    **ROBUST,
)


# Float masks and biases: added to the scores.
two = operands(72, [1, 1], 2, 2)
table = [[0.5, -1.0], [2.0, 0.0]]
attends("bias/float-mask", "A float mask is added to the scores.", two, mask=array(table), **ROBUST)
attends(
    "bias/float-mask-inf",
    "-inf in a float mask hides a key, 0 shows it.",
    two,
    mask=array([[0, "-inf"], [0, 0]]),
    **ROBUST,
)
attends(
    "bias/float-mask-lowest",
    "The lowest finite number hides a key beside ordinary scores.",
    two,
    mask=array([[0, -1e30], [0, 0]]),
    **ROBUST,
)
attends(
    "bias/report-04",
    "A lower triangle of floats is refused: it means a boolean mask, but would be added.",
    operands(73, [1, 1], 8, 8),
    mask=array([[1.0 if j <= i else 0.0 for j in range(8)] for i in range(8)]),
    expected=VALUE_ERROR,
    source=f"{REPORT} 4",
    **ROBUST,
)
attends("bias/added", "A bias is added to the scaled scores.", two, bias=array(table), **ROBUST)
attends(
    "bias/per-head",
    "A bias for each head.",
    operands(74, [1, 2], 2, 2),
    bias=array([[[1, 0], [0, 1]], [[0, -1], [2, 0]]]),
    **ROBUST,
)
attends(
    "bias/hides",
    "-inf in a bias hides a key; a row of -inf sees nothing and is 0.",
    two,
    bias=array([[0, "-inf"], ["-inf", "-inf"]]),
    **ROBUST,
)
attends(
    "bias/with-mask",
    "Bias and boolean mask together.",
    operands(75, [1, 1], 2, 3),
    bias=array([[1, 0, -1]]),
    mask=booleans([[1, 1, 0]]),
    **ROBUST,
)
attends(
    "bias/hidden-nan-key",
    "A NaN in a key that -inf hides stays out.",
    [two[0], {**two[1], "data": [*two[1]["data"][:2], "nan", 0]}, two[2]],
    bias=array([[0, "-inf"]]),
    **ROBUST,
)
band = {"dtype": "float32", "shape": [600, 600], "band": [-9, 0]}
attends(
    "bias/report-13",
    "A band of -inf, 600 × 600: no NaN.",
    [
        filled([1, 1, 600, 2], [0, 0]),
        filled([1, 1, 600, 2], [1, -1, 0.5]),
        filled([1, 1, 600, 1], list(range(10))),
    ],
    bias=band,
    source=f"{REPORT} 13",
    expected=filled([1, 1, 600, 1], [i / 2 for i in range(10)], "last"),
    **ROBUST,
)
