"""Calls drawn from the whole space of shapes, dtypes, masks, biases and options."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from headwise import alibi, causal, documents, lengths, prefix, relative, window
from headwise._lowering import has_lengths, lengths_of
from tests.support import FEW_ROWS, Inputs

QUERY_LENGTHS = st.one_of(st.integers(0, 2 * FEW_ROWS), st.sampled_from([33, 64, 65]))
KV_LENGTHS = st.one_of(st.integers(0, 2 * FEW_ROWS), st.sampled_from([63, 64, 65, 256, 257, 520]))
DIMS = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, 65]))
FLOATS: dict[str, Any] = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float32": np.float32,
    "float64": np.float64,
}
# Of the query, and of key and value.
PRECISIONS = [(name, name) for name in FLOATS] + [("float32", "float16"), ("float32", "bfloat16")]
LEAVES = ["causal", "window", "lengths", "documents", "prefix", "boolean", "whole"]


class Space:
    """Draws the parts of one call: its shapes are known, its numbers are random."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        rank = draw(st.sampled_from([2, 3, 4, 4, 4, 5, 6]))
        self.outer = tuple(draw(st.integers(1, 3)) for _ in range(max(rank - 3, 0)))
        self.kv_heads = (draw(st.integers(1, 3)),) if rank > 2 else ()
        group = draw(st.integers(1, 3)) if rank > 3 else 1
        self.heads = tuple(n * group for n in self.kv_heads)
        self.query_len, self.kv_len = draw(QUERY_LENGTHS), draw(KV_LENGTHS)

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def chance(self) -> bool:
        return bool(self.draw(st.booleans()))

    def operands(self) -> Inputs:
        precision, kv_precision = self.pick(*PRECISIONS)
        head_dim, value_dim = self.draw(DIMS), self.draw(DIMS)
        shapes = [
            (*self.part_of_outer(), *self.heads, self.query_len, head_dim),
            (*self.part_of_outer(), *self.kv_heads, self.kv_len, head_dim),
            (*self.outer, *self.kv_heads, self.kv_len, value_dim),
        ]
        query, key, value = (self.rng.normal(size=shape) for shape in shapes)
        q, kv = FLOATS[precision], FLOATS[kv_precision]
        return query.astype(q), key.astype(kv), value.astype(kv)

    def options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        mask = self.mask()
        if mask is not None:
            options["mask"] = mask
        if self.chance():
            options["bias"] = self.bias()
        if self.chance():
            options["scale"] = self.pick(0, -0.2, 0.1, 1e-33)
        if self.chance():
            options["softcap"] = self.pick(0.3, 2.0, 50.0, 1e-20, 1e20)
        if self.chance():
            shape = self.heads if self.chance() else ()
            options["sink_logits"] = self.rng.normal(size=shape) * self.pick(1, 30, 300, 3000)
        if self.query_len != self.kv_len or self.chance():
            options["query_offset"] = self.offset(mask)
        return options

    def offset(self, mask: Any) -> Any:
        corners = len(lengths_of(mask)) == has_lengths(mask)
        if corners and self.chance():
            return self.pick("upper_left", "lower_right")
        if self.outer and self.chance():
            return self.rng.integers(-5, 30, size=self.part_of_outer())
        return self.draw(st.integers(-5, 30))

    def part_of_outer(self) -> tuple[int, ...]:
        """Draw a shape that broadcasts to the batch's, mostly its own."""
        if not self.outer or self.chance():
            return self.outer
        first = self.draw(st.integers(0, len(self.outer)))
        return tuple(1 if self.chance() else n for n in self.outer[first:])

    def mask(self) -> Any:
        kind = self.pick("none", "float", "leaf", "leaf", "combined", "combined")
        if kind == "none":
            return None
        if kind == "float":
            return self.dense_bias()
        return self.leaf(self.pick(*LEAVES)) if kind == "leaf" else self.combined(2)

    def combined(self, levels: int) -> Any:
        """Draw masks joined by & and |; the first is structured, so that arrays join it."""
        mask = self.leaf(self.pick(*LEAVES[:5]))
        for _ in range(self.draw(st.integers(1, 2))):
            deeper = levels > 1 and self.chance()
            other = self.combined(levels - 1) if deeper else self.leaf(self.pick(*LEAVES))
            mask = mask & other if self.chance() else mask | other
        return mask

    def leaf(self, kind: str) -> Any:
        if kind == "causal":
            return causal()
        if kind == "window":
            return window(self.pick(None, 0, 1, 7), self.pick(None, 0, 3))
        if kind == "lengths":
            queries = self.per_item(self.query_len) if self.chance() else None
            return lengths(self.per_item(self.kv_len), queries, left=self.chance())
        if kind == "documents":
            return documents(self.ids(self.query_len), self.ids(self.kv_len))
        if kind == "prefix":
            return prefix(self.per_item(self.kv_len + 2))
        boolean = self.rng.random(self.broadcast_shape()) < self.pick(0.0, 0.3, 0.9)
        return boolean if kind == "boolean" else boolean.astype(self.pick("int64", "uint8"))

    def per_item(self, most: int) -> Any:
        """Draw one number from 0 to ``most``, or one for each batch item."""
        return self.rng.integers(0, most + 1, size=self.part_of_outer() if self.chance() else ())

    def ids(self, size: int) -> Any:
        lead = self.part_of_outer() if self.chance() else ()
        ids = self.rng.integers(0, 4, size=(*lead, size))
        return np.sort(ids, axis=-1) if self.chance() else ids

    def bias(self) -> Any:
        kind = self.pick("dense", "alibi", "relative", "sum")
        if kind == "dense":
            return self.dense_bias()
        heads = self.heads[0] if self.heads else 1
        slopes = alibi(self.rng.random(heads) * self.pick(1, 1, -1))
        numbers = self.rng.normal(size=(heads, 2 * self.pick(0, 1, 9) + 1))
        numbers[self.rng.random(numbers.shape) < 0.1] = self.pick(-np.inf, 0.0)
        table = relative(numbers)
        if kind == "sum":
            return slopes + table + self.dense_bias() + table
        return slopes if kind == "alibi" else table

    def dense_bias(self) -> Any:
        bias = self.rng.normal(size=self.broadcast_shape())
        bias[self.rng.random(bias.shape) < 0.2] = -np.inf
        return bias.astype(FLOATS[self.pick(*FLOATS)])

    def broadcast_shape(self) -> tuple[int, ...]:
        """Draw a shape that broadcasts to the scores'."""
        scores = (*self.outer, *self.heads, self.query_len, self.kv_len)
        rank = self.draw(st.integers(2, len(scores)))
        return tuple(1 if self.chance() else n for n in scores[len(scores) - rank :])


@st.composite
def calls(draw: Any) -> tuple[Inputs, dict[str, Any]]:
    """Draw the operands and options of a call."""
    space = Space(draw)
    return space.operands(), space.options()
