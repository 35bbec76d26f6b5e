"""Attention in plain NumPy, to be read: the whole contract, one line of mathematics at a time.

This is the oracle that all tests of the kernels lean on. It forms every matrix in full, in float64,
so it is slow and hungry, and right. For one head, with queries i and keys j::

    scores[i, j]  = scale · Σ_d query[i, d] key[j, d]          how well query i and key j fit
    scores[i, j]  = softcap · tanh(scores[i, j] / softcap)     bounded, where a cap is given
    scores[i, j] += bias[i, j]                                 anything else that should count
    weights[i, :] = softmax of scores[i, :] over the keys that query i may attend to
    output[i, :]  = Σ_j weights[i, j] value[j, :]              a weighted mean of the values

A learned sink is one more key of each head, with a score of its own and a value of zero.

Example
-------
>>> import numpy as np
>>> from headwise import causal, reference
>>> x = np.eye(3)
>>> seen = reference.attention(x, x, x, causal())
>>> seen.weights.round(2)
array([[1.  , 0.  , 0.  ],
       [0.36, 0.64, 0.  ],
       [0.26, 0.26, 0.47]])
>>> seen.entropy.round(2)
array([0.  , 0.65, 1.06])
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from headwise._arrays import is_additive as holds_floats
from headwise._arrays import to_additive, to_numpy, widen
from headwise._dense import boolean_mask
from headwise._lowering import lengths_of
from headwise._mask_kinds import Mask, query_positions
from headwise._seen import Reference, ratio
from headwise.biases import Bias

__all__ = ["Reference", "attention", "ratio"]

Array: TypeAlias = Any  # NumPy arrays; their operators are untyped
INFINITY = np.inf


def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    query_offset: Any = None,
    scale: float | None = None,
    bias: Any = None,
    softcap: float | None = None,
    sink_logits: Any = None,
    dtype: Any = np.float64,
) -> Reference:
    """Attend in full: every matrix is formed, in ``dtype``, and returned.

    The arguments are those of `headwise.scaled_dot_product_attention`. With ``dtype=np.float32``
    this is the plain computation that the kernels' error is measured against.
    """
    query, key, value = (as_floats(x, dtype) for x in (query, key, value))
    query = repeat_items(query, key, value)
    key, value = repeat_heads(key, query), repeat_heads(value, query)
    query_len, kv_len = query.shape[-2], key.shape[-2]
    offset = resolve_offset(query_offset, mask, query_len, kv_len)
    visible = visible_keys(mask, query_len, kv_len, offset)
    with np.errstate(invalid="ignore", over="ignore"):
        scores = cap(score(query, key, scale), softcap)
        for additive in (bias, mask if is_additive(mask) else None):
            if additive is not None:
                more = bias_array(additive, query_len, kv_len, offset, dtype)
                more = without_heads(more, scores.ndim)
                scores = scores + more
                visible = visible & ~np.isneginf(more)
        scores = np.where(visible, scores, -INFINITY).astype(dtype)
        visible = np.broadcast_to(visible, scores.shape)
        sinks = without_heads(sink_scores(sink_logits, scores.dtype), scores.ndim - 1)
        weights, lse, sink_weight = softmax(scores, sinks)
        output = weighted_sum(weights, value, visible)
    distances = query_positions(query_len, offset) - np.arange(kv_len)
    return Reference(scores, visible, distances, weights, lse, output, sinks, sink_weight, value)


def as_floats(x: Any, dtype: Any) -> Array:
    """Return any array as one of ``dtype``, bfloat16 included."""
    return np.asarray(widen(to_numpy("x", x)), dtype)


def repeat_items(query: Array, key: Array, value: Array) -> Array:
    """Give each batch item of key or value a query, where one is for all of them."""
    outer = np.broadcast_shapes(*(x.shape[:-3] for x in (query, key, value)))
    if not outer:
        return query
    heads = query.shape[-3:-2] or (1,)
    return np.broadcast_to(query, (*outer, *heads, *query.shape[-2:]))


def repeat_heads(x: Array, query: Array) -> Array:
    """Give each query head a key/value head of its own: head h reads head ``h // group``.

    Heads are axis -3 from 4 dimensions on; with fewer, NumPy's broadcasting does it.
    """
    if max(x.ndim, query.ndim) < 4 or min(x.ndim, query.ndim) < 3 or not x.shape[-3]:
        return x
    return np.repeat(x, query.shape[-3] // x.shape[-3], axis=-3)


def resolve_offset(query_offset: Any, mask: Any, query_len: int, kv_len: int) -> Any:
    """Where query 0 stands on the keys' axis: 0 or, by the corner's name, where they align.

    With padding the corner is that of each item's real queries and keys.
    """
    if query_offset is not None and not isinstance(query_offset, str):
        return query_offset
    first_key: Array = 0
    first_query: Array = 0
    last_key: Array = kv_len
    last_query: Array = query_len
    for padding in lengths_of(mask):
        keys: Array = padding.kv_lengths
        queries: Array = query_len if padding.query_lengths is None else padding.query_lengths
        if padding.left:
            first_key, first_query = kv_len - keys, query_len - queries
        else:
            last_key, last_query = keys, queries
    if query_offset == "upper_left":
        return first_key - first_query
    return last_key - last_query if query_offset == "lower_right" else 0


def score(query: Array, key: Array, scale: float | None) -> Array:
    """``scale · query keyᵀ``: the dot product of every query with every key."""
    head_dim = query.shape[-1]
    if scale is None:
        scale = 1 / np.sqrt(head_dim) if head_dim else 1.0
    return np.asarray(query @ np.swapaxes(key, -1, -2) * query.dtype.type(scale))


def cap(scores: Array, softcap: float | None) -> Array:
    """``softcap · tanh(scores / softcap)``: nearly the same where small, never above the cap."""
    if softcap is None:
        return scores
    factor = scores.dtype.type(softcap)
    return factor * np.tanh(scores / factor)


def bias_array(bias: Any, query_len: int, kv_len: int, offset: Any, dtype: Any) -> Array:
    """Return a bias as an array that broadcasts to the scores."""
    if isinstance(bias, Bias):
        return bias._numbers(query_len, kv_len, offset, dtype)
    return widen(to_additive("bias", bias))


def without_heads(x: Array, ndim: int) -> Array:
    """Drop the dimension of the one head where the operands have no such dimension."""
    return x[0] if x.ndim > ndim else x


def is_additive(mask: Any) -> bool:
    """Tell whether a mask is one of floats, to be added to the scores."""
    if mask is None or isinstance(mask, Mask):
        return False
    return holds_floats(to_numpy("mask", mask))


def visible_keys(mask: Any, query_len: int, kv_len: int, offset: Any) -> Array:
    """Return True where query i may attend to key j."""
    if mask is None or is_additive(mask):
        return np.ones((1, 1), dtype=bool)
    if isinstance(mask, Mask):
        return mask.to_array(query_len, kv_len, offset)
    return boolean_mask(to_numpy("mask", mask))


def sink_scores(sink_logits: Any, dtype: Any) -> Array:
    """Return the score of each head's sink, to stand beside rows: -inf where there is none."""
    sinks = np.asarray(-INFINITY if sink_logits is None else as_floats(sink_logits, dtype), dtype)
    return sinks[:, None] if sinks.ndim else sinks


def softmax(scores: Array, sinks: Array) -> tuple[Array, Array, Array]:
    """``e^s / Σ e^s`` along the keys, ``log Σ e^s``, and the sink's share, which is in the sum.

    The largest score is subtracted first: that changes nothing, but keeps e^s from overflowing. A
    row of nothing but -inf sees no key: its weights are 0 and its log-sum-exp is -inf.
    """
    largest = scores.max(axis=-1, keepdims=True, initial=-INFINITY)
    empty = np.isneginf(largest)
    sinks = np.broadcast_to(sinks[..., None], largest.shape)
    largest = np.where(empty, 0, np.maximum(largest, sinks))
    exponentials, sink = np.exp(scores - largest), np.exp(sinks - largest)
    total = np.where(empty, 1, exponentials.sum(axis=-1, keepdims=True) + sink).astype(scores.dtype)
    lse = np.where(empty, -INFINITY, np.log(total) + largest)
    sink_weight = np.where(empty, 0, sink / total)
    return tuple(  # type: ignore[return-value]
        x.astype(scores.dtype) for x in (exponentials / total, lse[..., 0], sink_weight[..., 0])
    )


def weighted_sum(weights: Array, value: Array, visible: Array) -> Array:
    """``weights · value``, where a value that is not seen counts for nothing, NaN included.

    0 · NaN is NaN, so the few values that are not finite are added one key at a time, where seen.
    """
    strange = ~np.isfinite(value)
    output = np.asarray(weights @ np.where(strange, 0, value))
    keys = np.flatnonzero(strange.any(axis=(*range(value.ndim - 2), value.ndim - 1)))
    for j in keys:
        more = weights[..., j, None] * np.where(strange, value, 0)[..., j, None, :]
        output = output + np.where(visible[..., j, None], more, 0)
    return output.astype(weights.dtype)
