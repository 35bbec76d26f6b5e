"""Splitting heads, combining them, and attention in every head."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise.conformance.cases import encode
from suite.recipe import (
    CONTRACT,
    SEED,
    VALUE_ERROR,
    array,
    booleans,
    case,
    numbers,
    operands,
    split,
    splits_and_attends,
)

VIEW = ["view"]


def counting(*shape: int, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """Describe an array that counts from 0, so that every number says where it came from."""
    return array(np.arange(np.prod(shape)).reshape(shape), dtype, **more)


def splits(name: str, asks: str, x: dict[str, Any], num_heads: int, **more: Any) -> None:
    """Write down a case of split_heads."""
    if "expected" not in more:
        data = np.array([float(n) for n in x["data"]]).reshape(x["shape"])
        more["expected"] = {**encode(split(data, num_heads)), "dtype": x["dtype"]}
    more = {"source": SEED, **more}
    case(f"split/{name}", asks, "split_heads", {"x": x, "num_heads": num_heads}, **more)


def combines(name: str, asks: str, x: dict[str, Any], **more: Any) -> None:
    """Write down a case of combine_heads."""
    if "expected" not in more:
        data = np.array([float(n) for n in x["data"]]).reshape(x["shape"])
        *lead, heads, length, dim = data.shape
        together = data.swapaxes(-3, -2).reshape(*lead, length, heads * dim)
        more["expected"] = {**encode(together), "dtype": x["dtype"]}
    case(f"combine/{name}", asks, "combine_heads", {"x": x}, **more)


def flat(seed: int, batch: int, queries: int, keys: int, width: int = 4) -> list[dict[str, Any]]:
    """Describe query, key and value with heads side by side."""
    return operands(seed, [batch], queries, keys, width)


# Heads are split: the exercise to the letter.
known = array([[[[0, 1]], [[2, 3]]]])
splits(
    "two-heads",
    "The first d_k dimensions are head 0, the next head 1.",
    counting(1, 1, 4),
    2,
    expected=known,
)
splits(
    "order-of-axes",
    "The head's axis stands right after the batch's, before the sequence's.",
    counting(1, 2, 4),
    2,
    expected=array([[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]),
)
splits(
    "runs-of-three",
    "Heads are consecutive runs, not every second dimension.",
    counting(1, 2, 6),
    2,
)
splits("three-heads", "Any number of heads that divides d_model.", counting(1, 2, 6), 3)
splits(
    "square",
    "A sequence as long as there are heads is no reason to mix them up.",
    counting(1, 2, 4),
    2,
)
splits("batch", "Every batch item is split on its own.", counting(2, 3, 4), 2)
splits("one-head", "With one head only an axis is added.", counting(1, 2, 3), 1)
splits("heads-of-one", "As many heads as dimensions: d_k is 1.", counting(1, 2, 3), 3)
splits(
    "batch-as-heads",
    "Batch, heads and length of one size are still different axes.",
    counting(2, 2, 4),
    2,
)
splits(
    "float64",
    "The dtype stays as it is.",
    counting(1, 2, 4, dtype="float64"),
    2,
    also=["dtype"],
)
splits(
    "whole-numbers",
    "Whole numbers stay whole numbers.",
    counting(1, 2, 4, dtype="int64"),
    2,
    also=["dtype"],
)
splits("unchanged", "The input is as it was.", counting(1, 2, 4), 2, also=["unchanged"])


# Splitting heads beyond the exercise.
robust: dict[str, Any] = {"level": "robust", "source": CONTRACT}
splits(
    "rank-2",
    "Without a batch: (seq_len, d_model) gives (heads, seq_len, d_k).",
    counting(2, 4),
    2,
    **robust,
)
splits("rank-4", "With two batch dimensions.", counting(2, 1, 2, 4), 2, **robust)
splits(
    "empty-batch",
    "A batch of nothing gives a batch of nothing.",
    counting(0, 2, 4),
    2,
    **robust,
)
splits(
    "empty-sequence",
    "A sequence of length 0 has heads of length 0.",
    counting(1, 0, 4),
    2,
    **robust,
)
splits(
    "view",
    "A view of the same memory: reshape and transpose copy nothing.",
    counting(1, 2, 4),
    2,
    also=VIEW,
    **robust,
)
splits(
    "transposed-memory",
    "Memory that is laid out in another order gives the same heads.",
    counting(1, 2, 4, layout="transposed"),
    2,
    **robust,
)
refused = {"expected": VALUE_ERROR, **robust}
splits(
    "remainder",
    "A number of heads that does not divide d_model is refused.",
    counting(1, 1, 5),
    2,
    **refused,
)
splits("no-heads", "0 heads are refused.", counting(1, 1, 4), 0, **refused)
splits("rank-1", "An array without a sequence is refused.", counting(4), 2, **refused)


# Heads are combined: the inverse of splitting.
combines("two-heads", "Heads lie side by side again: head 0 first.", counting(1, 2, 1, 2))
combines(
    "order-of-axes",
    "The sequence's axis comes back before the heads'.",
    counting(1, 2, 2, 2),
    expected=array([[[0, 1, 4, 5], [2, 3, 6, 7]]]),
)
combines("batch", "Every batch item on its own.", counting(2, 3, 2, 2))
combines(
    "from-a-view",
    "The view that split_heads gives comes back as it was.",
    counting(1, 2, 3, 2, layout="transposed"),
)
combines(
    "float64",
    "The dtype stays as it is.",
    counting(1, 2, 2, 1, dtype="float64"),
    also=["dtype"],
)
combines("rank-3", "Without a batch.", counting(2, 2, 2), level="robust")
combines(
    "rank-2",
    "An array without heads is refused.",
    counting(2, 2),
    level="robust",
    expected=VALUE_ERROR,
)


# Attention in every head, heads apart.
seed = {"source": SEED}
splits_and_attends(
    "per-head/one-key",
    "One key: every head gives its own slice of the value.",
    flat(1, 1, 1, 1),
    2,
    **seed,
)
splits_and_attends(
    "per-head/heads-apart",
    "The result is (batch, heads, queries, d_k): heads stay apart.",
    flat(2, 1, 2, 2),
    2,
    **seed,
)
splits_and_attends(
    "per-head/own-slices",
    "Each head sees its own consecutive dimensions only.",
    flat(3, 1, 3, 3),
    2,
    **seed,
)
splits_and_attends(
    "per-head/heads-of-three",
    "Heads of three dimensions are scaled by the root of three.",
    flat(4, 1, 2, 3, 6),
    2,
    **seed,
)
splits_and_attends(
    "per-head/batch", "Batch items do not see one another.", flat(5, 2, 3, 3), 2, **seed
)
splits_and_attends(
    "per-head/cross-attention", "More keys than queries.", flat(6, 1, 2, 5), 2, **seed
)
splits_and_attends("per-head/fewer-keys", "More queries than keys.", flat(7, 2, 4, 2), 2, **seed)
splits_and_attends(
    "per-head/one-head",
    "One head is plain attention with an axis more.",
    flat(8, 1, 2, 3),
    1,
    **seed,
)
splits_and_attends(
    "per-head/one-call",
    "scaled_dot_product_attention is called once, not once for each head.",
    flat(9, 1, 2, 2),
    2,
    also=["one call"],
    **seed,
)
splits_and_attends(
    "per-head/mask",
    "The mask is handed on; True may attend.",
    flat(10, 1, 2, 2),
    2,
    mask=booleans([[1, 0], [1, 1]]),
    **seed,
)
splits_and_attends(
    "per-head/mask-per-item",
    "A mask for each batch item, for all its heads.",
    flat(11, 2, 2, 3),
    2,
    mask=booleans([[[[1, 0, 1]]], [[[0, 1, 1]]]]),
    **seed,
)
splits_and_attends(
    "per-head/mask-per-head",
    "A mask for each head.",
    flat(12, 1, 2, 2),
    2,
    mask=booleans([[[[1, 0], [1, 1]], [[0, 1], [1, 1]]]]),
    **seed,
)
splits_and_attends(
    "per-head/unchanged",
    "The inputs are as they were.",
    flat(13, 1, 2, 2),
    2,
    also=["unchanged"],
    **seed,
)
splits_and_attends(
    "per-head/grouped",
    "Fewer heads of keys and values: num_kv_heads.",
    [numbers(14, 1, 2, 8), numbers(15, 1, 3, 4), numbers(16, 1, 3, 4)],
    4,
    level="robust",
    num_kv_heads=2,
)
