"""Mistakes in splitting, combining and calling heads."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise.conformance import plain
from headwise.conformance.cases import Array
from headwise.conformance.plain import Mistake, Plain


def _parts(x: Array, num_heads: int) -> tuple[tuple[int, ...], int, int]:
    if num_heads < 1 or x.ndim < 2 or x.shape[-1] % num_heads:
        raise ValueError("num_heads must divide d_model")
    return x.shape[:-2], x.shape[-2], x.shape[-1] // num_heads


def _interleaved(x: Array, num_heads: int) -> Array:
    lead, length, dim = _parts(x, num_heads)
    return np.moveaxis(x.reshape(*lead, length, dim, num_heads), -1, -3)


def _not_moved(x: Array, num_heads: int) -> Array:
    lead, length, dim = _parts(x, num_heads)
    return x.reshape(*lead, length, num_heads, dim)


def _straight(x: Array, num_heads: int) -> Array:
    lead, length, dim = _parts(x, num_heads)
    return x.reshape(*lead, num_heads, length, dim)


def _dims_before_sequence(x: Array, num_heads: int) -> Array:
    return plain.split(x, num_heads).swapaxes(-1, -2)


def _heads_before_batch(x: Array, num_heads: int) -> Array:
    heads = plain.split(x, num_heads)
    return heads.swapaxes(0, 1) if heads.ndim == 4 else heads


def _heads_last(x: Array, num_heads: int) -> Array:
    return np.moveaxis(plain.split(x, num_heads), -3, -1)


def _size_for_count(x: Array, num_heads: int) -> Array:
    _parts(x, num_heads)
    return plain.split(x, x.shape[-1] // num_heads)


def _reversed(x: Array, num_heads: int) -> Array:
    return plain.split(x, num_heads)[..., ::-1, :, :]


def _copied(x: Array, num_heads: int) -> Array:
    return np.ascontiguousarray(plain.split(x, num_heads))


def _float_split(x: Array, num_heads: int) -> Array:
    return plain.split(x, num_heads).astype(np.float64)


def _only_rank_3(x: Array, num_heads: int) -> Array:
    if x.ndim != 3:
        raise ValueError("not three dimensions")
    return plain.split(x, num_heads)


def _remainder_dropped(x: Array, num_heads: int) -> Array:
    return plain.split(x[..., : x.shape[-1] // num_heads * num_heads], num_heads)


def _not_moved_back(x: Array) -> Array:
    return x.reshape(*x.shape[:-3], x.shape[-2], x.shape[-3] * x.shape[-1])


def _combined_interleaved(x: Array) -> Array:
    x = np.moveaxis(x, -3, -1)
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def _combined_by_mean(x: Array) -> Array:
    return np.asarray(x.mean(axis=-3))


def _combined(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    return plain.combine(plain.per_head(p, inputs, options))


def _axes_back(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    return plain.per_head(p, inputs, options).swapaxes(1, 2)


def _averaged(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    return np.asarray(plain.per_head(p, inputs, options).mean(axis=1))


def _looped(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    n = inputs["num_heads"]
    kv = options.get("num_kv_heads", n)
    rest = {name: x for name, x in options.items() if name not in {"num_kv_heads", "mask"}}
    q = p.steps.split(inputs["query"], n)
    k, v = (np.repeat(p.steps.split(inputs[x], kv), n // kv, axis=1) for x in ("key", "value"))
    mask = options.get("mask")
    shape = (len(q), n, q.shape[2], k.shape[2])
    masks = [None] * n if mask is None else list(np.broadcast_to(mask, shape).swapaxes(0, 1))
    heads = [
        p.scaled_dot_product_attention(q[:, h], k[:, h], v[:, h], masks[h], **rest)
        for h in range(n)
    ]
    return np.stack(heads, axis=1)


def _whole_then_split(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    options = {name: x for name, x in options.items() if name != "num_kv_heads"}
    query, key, value = (inputs[name] for name in ("query", "key", "value"))
    mask = options.pop("mask", None)
    if mask is not None and np.ndim(mask) > 3:
        mask = np.asarray(mask)[:, 0]
    whole = p.scaled_dot_product_attention(query, key, value, mask, **options)
    return p.steps.split(whole, inputs["num_heads"])


def _without_mask(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    return plain.per_head(p, inputs, {n: x for n, x in options.items() if n != "mask"})


def _values_of_keys(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    swapped = {**inputs, "key": inputs["value"], "value": inputs["key"]}
    return plain.per_head(p, swapped, options)


def _self_attention(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    alone = {**inputs, "key": inputs["query"], "value": inputs["query"]}
    return plain.per_head(p, alone, options)


def _keys_as_values(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    return plain.per_head(p, {**inputs, "value": inputs["key"]}, options)


def _not_split(p: Plain, inputs: dict[str, Any], options: dict[str, Any]) -> Array:
    arrays = (inputs[name] for name in ("query", "key", "value"))
    rest = {name: x for name, x in options.items() if name != "num_kv_heads"}
    return p.scaled_dot_product_attention(*arrays, **rest)


RESHAPE = "x.reshape(batch, seq_len, num_heads, d_k).transpose(0, 2, 1, 3)"
MISTAKES = (
    Mistake(
        "heads interleaved",
        "Head h takes every num_heads-th dimension (h, h + num_heads, …), not a run of its own.",
        f"Reshape the last axis to (num_heads, d_k), in this order: {RESHAPE}.",
        {"split": _interleaved},
    ),
    Mistake(
        "heads not moved",
        "The head's axis is left behind the sequence's: the transpose is missing.",
        f"Swap the two axes after reshaping: {RESHAPE}.",
        {"split": _not_moved},
    ),
    Mistake(
        "reshaped straight to heads",
        "The array is reshaped straight to (batch, num_heads, seq_len, d_k), which cuts it along "
        "the sequence: the shape is right and the numbers are mixed up.",
        f"Split the last axis first, then swap axes: {RESHAPE}.",
        {"split": _straight},
    ),
    Mistake(
        "last two axes swapped",
        "The result is (batch, num_heads, d_k, seq_len).",
        f"Swap the axes of heads and sequence only: {RESHAPE}.",
        {"split": _dims_before_sequence},
    ),
    Mistake(
        "heads before the batch",
        "The head's axis stands in front of the batch's.",
        f"Heads belong on axis 1: {RESHAPE}.",
        {"split": _heads_before_batch},
    ),
    Mistake(
        "heads on the last axis",
        "The head's axis stands last.",
        f"Heads belong on axis 1: {RESHAPE}.",
        {"split": _heads_last},
    ),
    Mistake(
        "size of a head taken for their number",
        "num_heads is used as d_k: there are d_model // num_heads heads.",
        f"d_k is d_model // num_heads: {RESHAPE}.",
        {"split": _size_for_count},
    ),
    Mistake(
        "heads in reverse order",
        "The first head holds the last dimensions.",
        f"The first d_k dimensions are head 0: {RESHAPE}.",
        {"split": _reversed},
    ),
    Mistake(
        "split_heads takes three dimensions only",
        "Arrays with another number of dimensions than three raise.",
        "Use *lead, seq_len, d_model = x.shape, and swapaxes(-3, -2).",
        {"split": _only_rank_3},
    ),
    Mistake(
        "remainder dropped in silence",
        "Where num_heads does not divide d_model, the last dimensions are lost.",
        "Raise ValueError where d_model % num_heads is not 0.",
        {"split": _remainder_dropped},
    ),
    Mistake(
        "split_heads changes the dtype",
        "The result is float64 whatever came.",
        "Reshape and transpose the array itself; they keep its dtype.",
        {"split": _float_split},
    ),
    Mistake(
        "split_heads copies",
        "The result is a copy; the numbers are right.",
        f"Nothing needs to be copied: {RESHAPE} is a view.",
        {"split": _copied},
    ),
    Mistake(
        "heads not moved back",
        "Heads are combined by a reshape alone, which mixes positions and heads.",
        "Swap heads and sequence first: x.transpose(0, 2, 1, 3).reshape(batch, seq_len, -1).",
        {"combine": _not_moved_back},
    ),
    Mistake(
        "heads combined interleaved",
        "The dimensions of the heads alternate in the combined array.",
        "Heads lie side by side: x.transpose(0, 2, 1, 3).reshape(batch, seq_len, -1).",
        {"combine": _combined_interleaved},
    ),
    Mistake(
        "heads averaged",
        "The heads are averaged.",
        "Heads stay apart, or lie side by side once combined; nothing is averaged.",
        {"combine": _combined_by_mean, "per_head": _averaged},
    ),
    Mistake(
        "heads combined too early",
        "The result is (batch, seq_len, d_model): heads are already put together.",
        "Return what scaled_dot_product_attention gives; combining is the next exercise.",
        {"per_head": _combined},
    ),
    Mistake(
        "heads moved back",
        "The result is (batch, seq_len, num_heads, d_k).",
        "Return what scaled_dot_product_attention gives, heads on axis 1.",
        {"per_head": _axes_back},
    ),
    Mistake(
        "heads in a loop",
        "scaled_dot_product_attention is called once for each head.",
        "Call it once with all heads: its leading dimensions take care of them.",
        {"per_head": _looped},
    ),
    Mistake(
        "split after attending",
        "Attention runs over the whole d_model, and the result is split: one set of weights for "
        "all heads.",
        "Split query, key and value first, then attend.",
        {"per_head": _whole_then_split},
    ),
    Mistake(
        "not split",
        "Attention runs over the whole d_model and there are no heads.",
        "Split query, key and value with split_heads first.",
        {"per_head": _not_split},
    ),
    Mistake(
        "mask not handed on",
        "multi_head_attention_per_head loses its mask on the way.",
        "Hand it on: scaled_dot_product_attention(q, k, v, mask=mask).",
        {"per_head": _without_mask},
    ),
    Mistake(
        "keys and values exchanged in the heads' call",
        "Key and value are handed on in the wrong order.",
        "The order is query, key, value.",
        {"per_head": _values_of_keys},
    ),
    Mistake(
        "keys used as values in the heads' call",
        "The split key is handed on as the value, too.",
        "Split value as well, and hand it on.",
        {"per_head": _keys_as_values},
    ),
    Mistake(
        "query used for all three",
        "Key and value are not used: the query is split three times.",
        "Split key and value, too: cross-attention needs them.",
        {"per_head": _self_attention},
    ),
)
