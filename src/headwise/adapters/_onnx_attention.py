"""ONNX's ``Attention`` in headwise's terms: all is checked, and structured masks stay so."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from headwise import reference
from headwise._arrays import (
    Array,
    dtype_name,
    is_float,
    rounded,
    same_dtype,
    to_numpy,
    to_operand,
    working_dtype,
)
from headwise._errors import shape_text
from headwise.adapters._onnx_attributes import CAPPED, FLOAT64, SCALED, WEIGHTS, Attributes
from headwise.attention import scaled_dot_product_attention
from headwise.heads import split_heads
from headwise.masks import causal, lengths
from headwise.observation import observe


@dataclass(frozen=True)
class Call:
    """A call of the operator: heads apart, what is cached in front of the new keys and values."""

    query: Array
    key: Array
    value: Array
    past_len: int | None  # None: no cache was given
    side_by_side: bool  # whether Q, K and V came as (batch, length, heads · dim)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Shape of the scores, (batch, q_num_heads, query_len, total_len)."""
        batch, heads, query_len, _ = self.query.shape
        return (batch, heads, query_len, self.key.shape[2])


@dataclass(frozen=True)
class Visible:
    """Who may attend, in headwise's terms, and what is added to the scores."""

    mask: Any
    bias: Array | None
    offset: int | Array
    seen: int  # so many keys are covered by the mask; those beyond are hidden


def read_call(Q: Any, K: Any, V: Any, past_key: Any, past_value: Any, a: Attributes) -> Call:
    """Check Q, K, V and the cache, and put the cache in front."""
    q, k, v = to_operand("Q", Q), to_operand("K", K), to_operand("V", V)
    if not q.ndim == k.ndim == v.ndim or q.ndim not in {3, 4}:
        raise ValueError(
            "Q, K and V must all have 4 dimensions (batch, heads, length, dim), or all 3 (batch, "
            f"length, heads · dim), got {_shapes(q, k, v)}"
        )
    _check_same_dtype("K", k, "Q", q)
    side_by_side = q.ndim == 3
    q = _heads_apart("Q", q, "q_num_heads", a.q_num_heads, a.opset)
    k = _heads_apart("K", k, "kv_num_heads", a.kv_num_heads, a.opset)
    v = _heads_apart("V", v, "kv_num_heads", a.kv_num_heads, a.opset)
    if not len(q) == len(k) == len(v):
        raise ValueError(f"Q, K and V must have the same batch, got shapes {_shapes(q, k, v)}")
    if k.shape[2] != v.shape[2]:
        raise ValueError(f"K and V must have the same length, got {k.shape[2]} and {v.shape[2]}")
    if (past_key is None) != (past_value is None):
        missing = "past_key" if past_key is None else "past_value"
        raise ValueError(f"past_key and past_value belong together: {missing} is missing")
    if past_key is None:
        return Call(q, k, v, None, side_by_side)
    keys, values = _joined("past_key", past_key, "K", k), _joined("past_value", past_value, "V", v)
    if keys.shape[2] != values.shape[2]:
        both = keys.shape[2] - k.shape[2], values.shape[2] - v.shape[2]
        raise ValueError(f"past_key and past_value must have the same length, got {both}")
    return Call(q, keys, values, keys.shape[2] - k.shape[2], side_by_side)


def read_masks(call: Call, attn_mask: Any, nonpad_kv_seqlen: Any, a: Attributes) -> Visible:
    """Bring everything that hides keys into headwise's terms; positions stay positions."""
    dense = None if attn_mask is None else _attn_mask(attn_mask, call.shape, a.opset)
    total_len = call.shape[3]
    seen = total_len if dense is None or a.opset < 24 else dense.shape[-1]
    masks: list[Any] = [causal()] if a.is_causal else []
    if a.window is not None:
        masks.append(a.window)
    offset: int | Array = call.past_len or 0
    if nonpad_kv_seqlen is not None:
        counts = _nonpad(nonpad_kv_seqlen, call, seen, a.opset)
        masks.append(lengths(counts))
        offset = counts - call.shape[2]
    if dense is not None and dense.dtype.kind == "b":
        masks.append(dense)
        dense = None
    return Visible(reduce(operator.and_, masks) if masks else None, dense, offset, seen)


def attend(call: Call, visible: Visible, a: Attributes) -> tuple[Array, Array | None]:
    """Return the output, heads apart, and the matrix that ``qk_matmul_output_mode`` asks for."""
    q, k, v = _operands(call, a)
    key, value = k[:, :, : visible.seen], v[:, :, : visible.seen]
    options: dict[str, Any] = {
        "query_offset": visible.offset,
        "scale": a.scale,
        "bias": visible.bias,
        "softcap": a.softcap or None,
    }
    mode = a.qk_matmul_output_mode
    matrix: Array | None
    if mode == WEIGHTS:
        observation = observe(q, key, value, visible.mask, statistics=(), **options)
        output, matrix = observation.output, _padded(observation.weights(), 0, call)
    else:
        output = scaled_dot_product_attention(q, key, value, visible.mask, **options)
        matrix = None if mode is None else _scores(call, visible, a)
    dtype = call.query.dtype
    return rounded(output, dtype), None if matrix is None else rounded(matrix, dtype)


def _scores(call: Call, visible: Visible, a: Attributes) -> Array:
    """Return scores as far as the mode wants them: scaled, capped, or with masks and bias."""
    double = a.softmax_precision == FLOAT64
    working = np.dtype(np.float64) if double else working_dtype(call.query.dtype)
    q, k = (reference.as_floats(x, working) for x in (call.query, call.key))
    with np.errstate(invalid="ignore", over="ignore"):
        scores = reference.score(q, reference.repeat_heads(k, q), a.scale)
        if a.qk_matmul_output_mode == SCALED:
            return np.asarray(scores)
        capped = reference.cap(scores, a.softcap or None)
        if a.qk_matmul_output_mode == CAPPED:
            return np.asarray(capped)
        return _padded(_biased(capped[..., : visible.seen], visible), -np.inf, call)


def _biased(scores: Array, visible: Visible) -> Array:
    """Add the bias, and set what is hidden to -inf: a hidden NaN does not show."""
    query_len, kv_len = scores.shape[-2:]
    shown = reference.visible_keys(visible.mask, query_len, kv_len, visible.offset)
    if visible.bias is None:
        return np.where(shown, scores, -np.inf)
    bias = reference.as_floats(visible.bias, scores.dtype)
    return np.where(shown & ~np.isneginf(bias), scores + bias, -np.inf)


def _padded(matrix: Array, fill: float, call: Call) -> Array:
    """Append a column for each key that a short mask does not cover."""
    if matrix.shape == call.shape:
        return matrix
    whole = np.full(call.shape, fill, matrix.dtype)
    whole[..., : matrix.shape[-1]] = matrix
    return whole


def _operands(call: Call, a: Attributes) -> tuple[Array, Array, Array]:
    """Widen what kernels do not take together: V's dtype may differ, and precision be asked for."""
    q, k, v = call.query, call.key, call.value
    if a.softmax_precision == FLOAT64 or 8 in {q.dtype.itemsize, v.dtype.itemsize}:
        q, k, v = (x if x.dtype.itemsize == 8 else reference.as_floats(x, "f8") for x in (q, k, v))
    elif not same_dtype(q, v):
        q = reference.as_floats(q, np.float32)  # key and value may have 16 bits
    return q, k, v


def _heads_apart(name: str, x: Array, attribute: str, heads: int | None, opset: int) -> Array:
    """View an input as (batch, heads, length, dim)."""
    if x.ndim == 3:
        if heads is None or x.shape[2] % heads:
            raise ValueError(
                f"{name} has shape {shape_text(x.shape)}, (batch, length, heads · dim): give "
                f"{attribute}, a divisor of {x.shape[2]}, got {heads}"
            )
        return split_heads(x, heads)
    if heads is not None and (opset >= 25 or heads != x.shape[1]):
        raise ValueError(
            f"{attribute} is for Q, K and V of 3 dimensions, got {heads} and {name} of shape "
            f"{shape_text(x.shape)}, which has {x.shape[1]} heads: leave it out"
        )
    return x


def _joined(name: str, past: Any, new_name: str, new: Array) -> Array:
    """Put the cache in front of what is new."""
    array = to_operand(name, past)
    _check_same_dtype(name, array, new_name, new)
    batch, heads, _, dim = new.shape
    if array.ndim != 4 or array.shape[:2] != (batch, heads) or array.shape[3] != dim:
        raise ValueError(
            f"{name} must have shape (batch, kv_num_heads, past_len, dim) = ({batch}, {heads}, "
            f"past_len, {dim}), as {new_name} has it, got {shape_text(array.shape)}"
        )
    return np.concatenate([array, new], axis=2)


def _attn_mask(attn_mask: Any, shape: tuple[int, ...], opset: int) -> Array:
    array = to_numpy("attn_mask", attn_mask)
    if array.dtype.kind != "b" and not is_float(array):
        raise TypeError(
            f"attn_mask has dtype {dtype_name(array)}, expected bool (True = may attend) or "
            "floating point (added to the scores): pass attn_mask != 0, or convert it to floats"
        )
    want, last = shape[4 - array.ndim : 3], array.shape[-1] if array.ndim else -1
    fits = 1 <= array.ndim <= 4 and (last in {1, shape[3]} if opset < 24 else 0 <= last <= shape[3])
    if not fits or any(n not in {1, m} for n, m in zip(array.shape[:-1], want, strict=True)):
        shorter = "" if opset < 24 else ", its last dimension shorter at most"
        raise ValueError(
            "attn_mask must broadcast to (batch, q_num_heads, query_len, past_len + kv_len) = "
            f"{shape_text(shape)}{shorter}, got shape {shape_text(array.shape)}"
        )
    return array


def _nonpad(nonpad_kv_seqlen: Any, call: Call, seen: int, opset: int) -> Array:
    if opset < 24:
        raise ValueError(f"nonpad_kv_seqlen came with opset 24, got opset={opset}")
    if call.past_len is not None:
        raise ValueError(
            "nonpad_kv_seqlen is for K and V that are a whole cache: leave out past_key and "
            "past_value, or leave out nonpad_kv_seqlen"
        )
    counts = to_numpy("nonpad_kv_seqlen", nonpad_kv_seqlen)
    batch, kv_len = call.shape[0], call.shape[3]
    if counts.dtype.kind not in "iu" or counts.shape != (batch,):
        raise ValueError(
            f"nonpad_kv_seqlen must hold whole numbers of shape (batch,) = ({batch},), got dtype "
            f"{counts.dtype} and shape {shape_text(counts.shape)}"
        )
    if counts.size and not 0 <= counts.min() <= counts.max() <= seen:
        covered = "" if seen == kv_len else f", of which attn_mask covers {seen}"
        raise ValueError(
            f"nonpad_kv_seqlen must be at least 0 and at most kv_len {kv_len}{covered}, got "
            f"{counts.tolist()}"
        )
    return counts.astype(np.int64)


def _check_same_dtype(name: str, x: Array, other: str, y: Array) -> None:
    if not same_dtype(x, y):
        raise TypeError(
            f"{name} has dtype {dtype_name(x)} and {other} has {dtype_name(y)}, expected the "
            "same: convert one of them"
        )


def _shapes(*arrays: Array) -> str:
    return ", ".join(shape_text(x.shape) for x in arrays)
