"""Grouped heads, softcap, sinks, empty inputs and floats of 16 bits."""

from __future__ import annotations

from typing import Any

from suite.recipe import REPORT, VALUE_ERROR, array, attends, booleans, filled, operands

ROBUST: dict[str, Any] = {"level": "robust"}
REFUSABLE: dict[str, Any] = {"level": "robust", "may_refuse": True}


def write_grouped() -> None:
    """Write down: fewer heads of keys and values: query head h reads head h // group."""
    say = attends
    say(
        "grouped/one-for-all",
        "One key/value head for all query heads.",
        operands(101, [1, 2], 1, 2, kv_heads=1),
        **REFUSABLE,
    )
    say(
        "grouped/runs",
        "Query heads 0 and 1 read head 0, 2 and 3 read head 1.",
        operands(102, [1, 4], 1, 2, kv_heads=2),
        **REFUSABLE,
    )
    say(
        "grouped/batch",
        "The same in every batch item.",
        operands(103, [2, 4], 2, 3, kv_heads=2),
        **REFUSABLE,
    )
    say("grouped/threes", "Groups of three.", operands(104, [1, 6], 2, 2, kv_heads=2), **REFUSABLE)
    say(
        "grouped/report-07",
        "Grouped heads with a mask for each of 2 batch items.",
        operands(105, [2, 4], 2, 2, kv_heads=2),
        mask=booleans([[[[1, 0], [1, 1]]], [[[1, 1], [0, 1]]]]),
        source=f"{REPORT} 7",
        **REFUSABLE,
    )
    say(
        "grouped/causal",
        "Grouped heads and causal together.",
        operands(106, [1, 4], 3, 3, kv_heads=2),
        mask={"causal": {}},
        **REFUSABLE,
    )
    say(
        "grouped/remainder",
        "4 query heads do not share 3 key/value heads: refused.",
        operands(107, [1, 4], 1, 2, kv_heads=3),
        expected=VALUE_ERROR,
        **ROBUST,
    )
    say(
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


def write_softcap() -> None:
    """Write down: bounded scores: before bias and mask."""
    say, two = attends, operands(108, [1, 1], 2, 3)
    say(
        "softcap/tanh",
        "Scores become softcap · tanh(scores / softcap).",
        two,
        softcap=0.5,
        **ROBUST,
    )
    say(
        "softcap/scaled-first",
        "Scores are scaled before they are capped.",
        two,
        softcap=1.0,
        scale=3.0,
        **ROBUST,
    )
    say(
        "softcap/before-bias",
        "A bias is added after the cap and may exceed it.",
        two,
        softcap=0.5,
        bias=array([[2, 0, -3]]),
        **ROBUST,
    )
    say(
        "softcap/before-mask",
        "A hidden key stays hidden.",
        two,
        softcap=0.5,
        mask=booleans([[1, 0, 1]]),
        **ROBUST,
    )
    say(
        "softcap/report-25",
        "A cap must not revive a key that a bias of -inf hides.",
        two,
        softcap=0.5,
        bias=array([[0, "-inf", 0]]),
        source=f"{REPORT} 25",
        **ROBUST,
    )
    say(
        "softcap/zero",
        "A cap of 0 is refused: None is no cap.",
        two,
        softcap=0.0,
        expected=VALUE_ERROR,
        **ROBUST,
    )


def write_sinks() -> None:
    """Write down: a learned sink: one more key of each head, whose value is zero."""
    say, two = attends, operands(109, [1, 2], 2, 2)
    say(
        "sinks/less-than-one",
        "The weights of a row add up to less than 1.",
        [array([[[[0, 0]]]]), array([[[[0, 0]]]]), array([[[[1, 1]]]])],
        sink_logits=array([0]),
        expected=array([[[[0.5, 0.5]]]]),
        **ROBUST,
    )
    say(
        "sinks/report-24",
        "Each head has a sink of its own.",
        two,
        sink_logits=array([0.5, -1]),
        source=f"{REPORT} 24",
        **ROBUST,
    )
    say(
        "sinks/large",
        "A sink above all scores takes nearly everything, without overflow.",
        two,
        sink_logits=array([200, 0]),
        **ROBUST,
    )
    say(
        "sinks/not-scaled",
        "A sink is a score already: the scale does not touch it.",
        two,
        sink_logits=array([1, 2]),
        scale=0.25,
        **ROBUST,
    )
    say(
        "sinks/masked",
        "With a mask, and a row that sees no key: 0.",
        two,
        sink_logits=array([0.5, -1]),
        mask=booleans([[1, 0], [0, 0]]),
        **ROBUST,
    )


def write_empties() -> None:
    """Write down: axes of length 0."""
    say = attends
    no_keys = [operands(110, [1, 1], 2, 1)[0], *operands(110, [1, 1], 2, 0)[1:]]
    say(
        "empty/report-15",
        "Without keys every query gives zeros.",
        no_keys,
        expected=array([[[[0, 0], [0, 0]]]]),
        source=f"{REPORT} 15",
        **ROBUST,
    )
    say(
        "empty/queries",
        "No queries: an empty result of the right shape.",
        operands(111, [1, 1], 0, 2),
        **ROBUST,
    )
    say("empty/batch", "A batch of nothing.", operands(112, [0, 1], 2, 2), **ROBUST)
    say(
        "empty/value-dim",
        "Values of no dimensions.",
        operands(113, [1, 1], 2, 2, value_dim=0),
        **ROBUST,
    )
    say(
        "empty/head-dim",
        "Keys of no dimensions: all scores are 0, all keys count alike.",
        operands(114, [1, 1], 2, 2, 0, value_dim=2),
        **ROBUST,
    )


def write_half() -> None:
    """Write down: floats of 16 bits: scores and sums in float32."""
    say = attends
    typed: dict[str, Any] = {"also": ["dtype"], **REFUSABLE}
    half: dict[str, Any] = {"dtype": "float16"}
    brain: dict[str, Any] = {"dtype": "bfloat16"}
    say("half/float16", "float16 in, float16 out.", operands(115, [1, 1], 2, 3, **half), **typed)
    big = [filled([1, 1, 1, 80], [256], **half) for _ in range(3)]
    say(
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
    say(
        "half/sum",
        "A mean of 4096 values near 32: sums need more than 16 bits.",
        many,
        expected=filled([1, 1, 1, 1], [32], **half),
        **typed,
    )
    say(
        "half/float16-mask",
        "float16 with a mask.",
        operands(116, [1, 1], 2, 3, **half),
        mask=booleans([[1, 0, 1]]),
        **typed,
    )
    say(
        "half/bfloat16", "bfloat16 in, bfloat16 out.", operands(117, [1, 1], 2, 3, **brain), **typed
    )
    say(
        "half/bfloat16-mask",
        "bfloat16 with a mask.",
        operands(118, [1, 1], 2, 3, **brain),
        mask=booleans([[1, 0, 1]]),
        **typed,
    )
    say(
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
    say("half/mixed", "A float32 query with float16 keys and values.", mixed, **typed)
