"""Grouped heads, softcap, sinks, empty inputs and floats of 16 bits."""

from __future__ import annotations

from typing import Any

from suite.recipe import REPORT, VALUE_ERROR, array, attends, booleans, filled, operands

ROBUST: dict[str, Any] = {"level": "robust"}
REFUSABLE: dict[str, Any] = {"level": "robust", "may_refuse": True}


# Fewer heads of keys and values: query head h reads head h // group.
attends(
    "grouped/one-for-all",
    "One key/value head for all query heads.",
    operands(101, [1, 2], 1, 2, kv_heads=1),
    **REFUSABLE,
)
attends(
    "grouped/runs",
    "Query heads 0 and 1 read head 0, 2 and 3 read head 1.",
    operands(102, [1, 4], 1, 2, kv_heads=2),
    **REFUSABLE,
)
attends(
    "grouped/batch",
    "The same in every batch item.",
    operands(103, [2, 4], 2, 3, kv_heads=2),
    **REFUSABLE,
)
attends("grouped/threes", "Groups of three.", operands(104, [1, 6], 2, 2, kv_heads=2), **REFUSABLE)
attends(
    "grouped/report-07",
    "Grouped heads with a mask for each of 2 batch items.",
    operands(105, [2, 4], 2, 2, kv_heads=2),
    mask=booleans([[[[1, 0], [1, 1]]], [[[1, 1], [0, 1]]]]),
    source=f"{REPORT} 7",
    **REFUSABLE,
)
attends(
    "grouped/causal",
    "Grouped heads and causal together.",
    operands(106, [1, 4], 3, 3, kv_heads=2),
    mask={"causal": {}},
    **REFUSABLE,
)
attends(
    "grouped/remainder",
    "4 query heads do not share 3 key/value heads: refused.",
    operands(107, [1, 4], 1, 2, kv_heads=3),
    expected=VALUE_ERROR,
    **ROBUST,
)
attends(
    "grouped/report-18",
    "Keys and values are not repeated in memory: at most 16 MiB more.",
    [
        filled([1, 32, 1, 64], [0.1, 0.2]),
        filled([1, 1, 8192, 64], [0.5, -0.5, 0.1]),
        filled([1, 1, 8192, 64], [1, 2, 3]),
    ],
    expected={"law": "heads not repeated"},
    most_mib=16,
    source=f"{REPORT} 18",
    **REFUSABLE,
)


# Bounded scores: before bias and mask.
two = operands(108, [1, 1], 2, 3)
attends(
    "softcap/tanh",
    "Scores become softcap · tanh(scores / softcap).",
    two,
    softcap=0.5,
    **ROBUST,
)
attends(
    "softcap/scaled-first",
    "Scores are scaled before they are capped.",
    two,
    softcap=1.0,
    scale=3.0,
    **ROBUST,
)
attends(
    "softcap/before-bias",
    "A bias is added after the cap and may exceed it.",
    two,
    softcap=0.5,
    bias=array([[2, 0, -3]]),
    **ROBUST,
)
attends(
    "softcap/before-mask",
    "A hidden key stays hidden.",
    two,
    softcap=0.5,
    mask=booleans([[1, 0, 1]]),
    **ROBUST,
)
attends(
    "softcap/report-25",
    "A cap must not revive a key that a bias of -inf hides.",
    two,
    softcap=0.5,
    bias=array([[0, "-inf", 0]]),
    source=f"{REPORT} 25",
    **ROBUST,
)
attends(
    "softcap/zero",
    "A cap of 0 is refused: None is no cap.",
    two,
    softcap=0.0,
    expected=VALUE_ERROR,
    **ROBUST,
)


# A learned sink: one more key of each head, whose value is zero.
two = operands(109, [1, 2], 2, 2)
attends(
    "sinks/less-than-one",
    "The weights of a row add up to less than 1.",
    [array([[[[0, 0]]]]), array([[[[0, 0]]]]), array([[[[1, 1]]]])],
    sink_logits=array([0]),
    expected=array([[[[0.5, 0.5]]]]),
    **ROBUST,
)
attends(
    "sinks/report-24",
    "Each head has a sink of its own.",
    two,
    sink_logits=array([0.5, -1]),
    source=f"{REPORT} 24",
    **ROBUST,
)
attends(
    "sinks/large",
    "A sink above all scores takes nearly everything, without overflow.",
    two,
    sink_logits=array([200, 0]),
    **ROBUST,
)
attends(
    "sinks/not-scaled",
    "A sink is a score already: the scale does not touch it.",
    two,
    sink_logits=array([1, 2]),
    scale=0.25,
    **ROBUST,
)
attends(
    "sinks/masked",
    "With a mask, and a row that sees no key: 0.",
    two,
    sink_logits=array([0.5, -1]),
    mask=booleans([[1, 0], [0, 0]]),
    **ROBUST,
)


# Axes of length 0.
no_keys = [operands(110, [1, 1], 2, 1)[0], *operands(110, [1, 1], 2, 0)[1:]]
attends(
    "empty/report-15",
    "Without keys every query gives zeros.",
    no_keys,
    expected=array([[[[0, 0], [0, 0]]]]),
    source=f"{REPORT} 15",
    **ROBUST,
)
attends(
    "empty/queries",
    "No queries: an empty result of the right shape.",
    operands(111, [1, 1], 0, 2),
    **ROBUST,
)
attends("empty/batch", "A batch of nothing.", operands(112, [0, 1], 2, 2), **ROBUST)
attends(
    "empty/value-dim",
    "Values of no dimensions.",
    operands(113, [1, 1], 2, 2, value_dim=0),
    **ROBUST,
)
attends(
    "empty/head-dim",
    "Keys of no dimensions: all scores are 0, all keys count alike.",
    operands(114, [1, 1], 2, 2, 0, value_dim=2),
    **ROBUST,
)


# Floats of 16 bits: scores and sums in float32.
typed: dict[str, Any] = {"also": ["dtype"], **REFUSABLE}
half: dict[str, Any] = {"dtype": "float16"}
brain: dict[str, Any] = {"dtype": "bfloat16"}
attends("half/float16", "float16 in, float16 out.", operands(115, [1, 1], 2, 3, **half), **typed)
big = [filled([1, 1, 1, 80], [256], **half) for _ in range(3)]
attends(
    "half/report-12",
    "float16, all 256, head_dim 80: products beyond 65504 do not overflow.",
    big,
    expected=filled([1, 1, 1, 80], [256], **half),
    source=f"{REPORT} 12",
    **typed,
)
many = [
    filled([1, 1, 1, 1], [0], **half),
    filled([1, 1, 4096, 1], [0], **half),
    filled([1, 1, 4096, 1], [20, 44], **half),
]
attends(
    "half/sum",
    "A mean of 4096 values near 32: sums need more than 16 bits.",
    many,
    expected=filled([1, 1, 1, 1], [32], **half),
    **typed,
)
attends(
    "half/float16-mask",
    "float16 with a mask.",
    operands(116, [1, 1], 2, 3, **half),
    mask=booleans([[1, 0, 1]]),
    **typed,
)
attends(
    "half/bfloat16", "bfloat16 in, bfloat16 out.", operands(117, [1, 1], 2, 3, **brain), **typed
)
attends(
    "half/bfloat16-mask",
    "bfloat16 with a mask.",
    operands(118, [1, 1], 2, 3, **brain),
    mask=booleans([[1, 0, 1]]),
    **typed,
)
attends(
    "half/report-05",
    "A float32 bias with a bfloat16 query is accepted.",
    operands(119, [1, 1], 2, 2, **brain),
    bias=array([[0.5, -1]]),
    source=f"{REPORT} 5",
    level="robust",
    also=["dtype"],
)
query, key, value = operands(120, [1, 1], 2, 3)
mixed = [query, {**key, **half}, {**value, **half}]
attends("half/mixed", "A float32 query with float16 keys and values.", mixed, **typed)
