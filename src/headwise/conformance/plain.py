"""Attention by small steps in NumPy, any of which a mistake may replace.

`Plain()` is right in every case; ``Plain(mistake)`` makes that mistake. Its results are compared
with those of an implementation that fails, so that the mistake can be named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from headwise._mask_kinds import Band, Both, Dense, Either, Lengths
from headwise.conformance.cases import Array, Call, Case
from headwise.conformance.outcome import Target

Step = Callable[..., Any]


@dataclass(frozen=True)
class Mistake:
    """A known mistake: its name, a sentence, the remedy, and the steps it replaces."""

    name: str
    says: str
    remedy: str
    steps: dict[str, Step] = field(default_factory=dict)
    slack: float = 4.0  # how many tolerances its results may lie from the target's


def split(x: Array, num_heads: int) -> Array:
    """Give each head its run of consecutive dimensions."""
    if num_heads < 1 or x.ndim < 2 or x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide d_model")
    return x.reshape(*x.shape[:-1], num_heads, x.shape[-1] // num_heads).swapaxes(-3, -2)


def combine(x: Array) -> Array:
    """Put heads side by side."""
    if x.ndim < 3:
        raise ValueError("x must have at least 3 dimensions")
    x = x.swapaxes(-3, -2)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def per_head(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    """Split all three and attend once."""
    options = dict(options)
    heads = inputs["num_heads"]
    kv_heads = options.pop("num_kv_heads", heads)
    query = p.steps.split(inputs["query"], heads)
    key, value = (p.steps.split(inputs[name], kv_heads) for name in ("key", "value"))
    return p.scaled_dot_product_attention(query, key, value, **options)


def operands(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    """Take floats of any size and byte order; whole numbers become float64."""
    arrays = [np.asarray(x) for x in (query, key, value)]
    for x in arrays:
        if x.dtype.kind not in "biufV" or (x.dtype.kind == "V" and x.dtype.name != "bfloat16"):
            raise TypeError(f"dtype {x.dtype}")
    q, k, v = (x.astype(np.float64) if x.dtype.kind in "biu" else x for x in arrays)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError("shapes do not fit")
    return q, k, v


def working(dtype: Any) -> Any:
    """Return the precision to compute in."""
    return np.float64 if dtype == np.float64 else np.float32


def share(x: Array, query: Array) -> Array:
    """Give query head h the key/value head ``h // group``."""
    if min(x.ndim, query.ndim) < 4:
        return x
    heads, kv_heads = query.shape[-3], x.shape[-3]
    if not kv_heads or heads % kv_heads:
        raise ValueError("heads do not divide")
    return np.repeat(x, heads // kv_heads, axis=-3)


def factor(query: Array, key: Array) -> float:
    """Return the default scale."""
    del key
    return 1 / np.sqrt(query.shape[-1]) if query.shape[-1] else 1.0


def product(query: Array, key: Array) -> Array:
    """Return the dot product of every query with every key."""
    return np.asarray(query @ key.swapaxes(-1, -2))


def rounded(scores: Array, dtype: Any) -> Array:
    """Keep the dot products in the working precision."""
    del dtype
    return scores


def cap(scores: Array, softcap: float | None) -> Array:
    """Bound the scores."""
    if softcap is not None and softcap <= 0:
        raise ValueError("softcap must be greater than 0")
    return scores if softcap is None else softcap * np.tanh(scores / softcap)


def add(scores: Array, bias: Array | None) -> Array:
    """Add the bias."""
    return scores if bias is None else scores + bias


def score(s: Any, scores: Array, softcap: float | None, bias: Array | None) -> Array:
    """Cap, then bias."""
    return s.add(s.cap(scores, softcap), bias)


def additive(mask: Array) -> tuple[Array | None, Array | None]:
    """Return a float mask as (boolean mask, bias)."""
    if set(np.unique(mask)) == {0.0, 1.0}:
        raise ValueError("a float mask of 0.0 and 1.0")
    return None, mask


def dense(mask: Array) -> Array:
    """Return True where an array of truth values, or of 0 and 1, shows a key."""
    if mask.dtype.kind != "b" and mask.size and not set(np.unique(mask)) <= {0, 1}:
        raise ValueError("whole numbers beside 0 and 1")
    return mask != 0


def band(ahead: Array, left: int | None, right: int | None) -> Array:
    """Return True where a key lies within the distances."""
    seen = np.ones(ahead.shape, dtype=bool)
    if left is not None:
        seen = seen & (ahead >= -left)
    return seen if right is None else seen & (ahead <= right)


def padded(index: Array, lengths: Array, whole: int, left: bool) -> Array:
    """Return True where a position is real."""
    each = np.asarray(lengths)
    each = each[..., None, None, None] if each.ndim else each
    return index >= whole - each if left else index < each


def both(one: Array, other: Array, is_dense: tuple[bool, bool]) -> Array:
    """Join what two masks show, either of which may be an array."""
    del is_dense
    return one & other


def offset(query_offset: Any, query_len: int, kv_len: int) -> Any:
    """Return where query 0 stands; it must be said where the lengths differ."""
    if query_offset is None:
        if query_len != kv_len:
            raise ValueError("query_offset must be said")
        return 0
    if isinstance(query_offset, str):
        return {"upper_left": 0, "lower_right": kv_len - query_len}[query_offset]
    each = np.asarray(query_offset)
    return each[..., None, None, None] if each.ndim else each


def hide(scores: Array, visible: Array, bias: Array | None) -> Array:
    """Give hidden keys a score of -inf, also where it is NaN."""
    if bias is not None:
        visible = visible & ~np.isneginf(bias)
    return np.where(visible, scores, -np.inf)


def late(scores: Array, softcap: float | None) -> Array:
    """Do nothing to masked scores."""
    del softcap
    return scores


def softmax(scores: Array, sink: Array | None) -> Array:
    """Return the weights of every row; a row that sees nothing gets zeros."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if sink is not None:
        largest = np.maximum(largest, sink)
    largest = np.where(np.isneginf(largest), 0, largest)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    if sink is not None:
        total = total + np.exp(sink - largest)
    return np.asarray(weights / np.where(total == 0, 1, total))


def weigh(weights: Array, value: Array, visible: Array) -> Array:
    """Add the values by their weights; a hidden value counts for nothing, NaN included."""
    if np.isfinite(value).all():
        return np.asarray(weights @ value)
    seen = np.broadcast_to(visible, weights.shape)[..., None]
    each = weights[..., None] * value[..., None, :, :]
    return np.asarray(np.where(seen, each, 0).sum(axis=-2))


def finish(output: Array, query: Array) -> Any:
    """Return the result in the query's dtype."""
    return output.astype(query.dtype.newbyteorder("="))


STEPS: dict[str, Step] = {
    f.__name__: f
    for f in (
        *(
            split,
            combine,
            per_head,
            operands,
            working,
            share,
            factor,
            product,
            rounded,
            cap,
            add,
            score,
        ),
        *(additive, dense, band, padded, both, offset, hide, late, softmax, weigh, finish),
    )
}

# A step that is not named acts in every call of the attention.
FUNCTIONS_OF_STEPS = {
    "split": ("split_heads", "multi_head_attention_per_head"),
    "combine": ("combine_heads",),
    "per_head": ("multi_head_attention_per_head",),
}
OPTIONS_OF_STEPS = {
    "cap": ("softcap",),
    "late": ("softcap",),
    "score": ("softcap", "bias", "mask"),
    "add": ("bias", "mask"),
    **dict.fromkeys(("additive", "dense", "band", "padded", "both", "offset"), ("mask",)),
}


def may_act(mistake: Mistake, case: Case) -> bool:
    """Tell whether a mistake's steps come into a case at all."""
    if case.function in {"split_heads", "combine_heads"}:
        return any(case.function in FUNCTIONS_OF_STEPS.get(step, ()) for step in mistake.steps)
    steps = [s for s in mistake.steps if case.function in FUNCTIONS_OF_STEPS.get(s, case.function)]
    given = set(case.options)
    return any(s not in OPTIONS_OF_STEPS or given & set(OPTIONS_OF_STEPS[s]) for s in steps)


class Plain:
    """The four functions, made of the steps; mistakes replace some of them."""

    def __init__(self, *mistakes: Mistake) -> None:
        steps = dict(STEPS)
        for mistake in mistakes:
            steps.update(mistake.steps)
        self.steps = SimpleNamespace(**steps)

    def target(self) -> Target:
        """Return this as a target, to be run as any other."""
        functions: dict[str, Step] = {
            "split_heads": lambda c: self.steps.split(
                np.asarray(c.inputs["x"]), c.inputs["num_heads"]
            ),
            "combine_heads": lambda c: self.steps.combine(np.asarray(c.inputs["x"])),
            "multi_head_attention_per_head": lambda c: self.steps.per_head(
                self, c.inputs, c.options
            ),
            "scaled_dot_product_attention": lambda c: self.scaled_dot_product_attention(
                *c.inputs.values(), **c.options
            ),
        }

        def run(call: Call) -> Any:
            return functions[call.function](call)

        return Target(functions, run, self, file=None)

    def scaled_dot_product_attention(
        self, query: Any, key: Any, value: Any, mask: Any = None, **options: Any
    ) -> Any:
        """Attend, step by step."""
        s = self.steps
        query, key, value = s.operands(query, key, value)
        dtype = s.working(query.dtype)
        q, k, v = (x.astype(dtype) for x in (query, key, value))
        k, v = s.share(k, q), s.share(v, q)
        scale = options.get("scale")
        scores = s.rounded(s.product(q, k), query.dtype)
        scores = scores * dtype(s.factor(q, k) if scale is None else scale)
        visible, bias = self._masks(mask, scores.shape, options)
        softcap = options.get("softcap")
        scores = s.hide(s.score(s, scores, softcap, bias), visible, bias)
        scores = s.late(scores, softcap)
        sink = options.get("sink_logits")
        sink = None if sink is None else np.asarray(sink)[:, None, None]
        weights = s.softmax(scores, sink).astype(dtype)
        return s.finish(s.weigh(weights, v, visible), query)

    def _masks(self, mask: Any, shape: tuple[int, ...], options: dict[str, Any]) -> Any:
        """Return what every query sees, and what is added to the scores."""
        bias, offset = options.get("bias"), options.get("query_offset")
        bias = None if bias is None else np.asarray(bias).astype(np.float64)
        if isinstance(mask, np.ndarray | list) and np.asarray(mask).dtype.kind in "fV":
            mask, more = self.steps.additive(np.asarray(mask))
            bias = more if bias is None else bias + more
        if mask is None:
            return np.ones((1, 1), dtype=bool), bias
        return self._sees(mask, shape, offset), bias

    def _sees(self, mask: Any, shape: tuple[int, ...], offset: Any) -> Array:
        s, (rows, keys) = self.steps, shape[-2:]
        i, j = np.arange(rows)[:, None], np.arange(keys)
        if isinstance(mask, Both | Either):
            parts = (mask.one, mask.other)
            one, other = (self._sees(part, shape, offset) for part in parts)
            if isinstance(mask, Either):
                return one | other
            return s.both(one, other, tuple(isinstance(part, Dense) for part in parts))
        if isinstance(mask, Band):
            return s.band(j - i - s.offset(offset, rows, keys), mask.left, mask.right)
        if isinstance(mask, Lengths):
            seen = s.padded(j, mask.kv_lengths, keys, mask.left)
            if mask.query_lengths is None:
                return seen
            return seen & s.padded(i, mask.query_lengths, rows, mask.left)
        return s.dense(np.asarray(mask.array if isinstance(mask, Dense) else mask))
