"""PyTorch's conventions. Nothing here needs PyTorch: its tensors are read through DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise._arrays import Array, to_numpy
from headwise._errors import shape_text


def mask_from_multihead_attention(
    attn_mask: Any = None, key_padding_mask: Any = None, *, num_heads: int | None = None
) -> Array | None:
    """Convert the masks of PyTorch's ``nn.MultiheadAttention``, where True means *masked*.

    Parameters
    ----------
    attn_mask
        ``(query_len, kv_len)`` or ``(batch · num_heads, query_len, kv_len)``; boolean, True = may
        not attend, or a float array that is added to the scores.
    key_padding_mask
        ``(batch, kv_len)`` or ``(kv_len,)``, likewise.
    num_heads
        Needed where ``attn_mask`` has three dimensions.

    Returns
    -------
    array or None
        A ``mask=`` for headwise: boolean, True = may attend, or floats to add.

    Raises
    ------
    ValueError
        Where a shape is none of these, or ``num_heads`` is missing.

    Notes
    -----
    PyTorch's ``scaled_dot_product_attention`` has it the other way round: there True means may
    attend, as in headwise, and nothing needs converting.

    Examples
    --------
    >>> from headwise.adapters.torch import mask_from_multihead_attention
    >>> mask_from_multihead_attention(key_padding_mask=[[False, False, True]])
    array([[[[ True,  True, False]]]])
    """
    parts = [
        _attention_mask(attn_mask, num_heads),
        _padding_mask(key_padding_mask),
    ]
    given = [part for part in parts if part is not None]
    if len(given) < 2:
        return _may_attend(given[0]) if given else None
    if all(part.dtype.kind == "b" for part in given):
        return np.asarray(~(given[0] | given[1]))
    return np.asarray(_additive(given[0]) + _additive(given[1]))


def _attention_mask(mask: Any, num_heads: int | None) -> Array | None:
    if mask is None:
        return None
    array = _boolean_or_float("attn_mask", mask)
    if array.ndim == 2:
        return array
    if array.ndim != 3:
        raise ValueError(
            "attn_mask must have shape (query_len, kv_len) or (batch · num_heads, query_len, "
            f"kv_len), got {shape_text(array.shape)}"
        )
    if num_heads is None or num_heads < 1 or array.shape[0] % num_heads:
        raise ValueError(
            f"attn_mask of shape {shape_text(array.shape)} holds one mask for each batch item and "
            f"head: give num_heads=, a divisor of {array.shape[0]}, got {num_heads}"
        )
    return array.reshape(-1, num_heads, *array.shape[1:])


def _padding_mask(mask: Any) -> Array | None:
    if mask is None:
        return None
    array = _boolean_or_float("key_padding_mask", mask)
    if array.ndim not in {1, 2}:
        raise ValueError(
            f"key_padding_mask must have shape (batch, kv_len) or (kv_len,), got "
            f"{shape_text(array.shape)}"
        )
    return array[..., None, None, :] if array.ndim == 2 else array[None, :]


def _boolean_or_float(name: str, mask: Any) -> Array:
    array = to_numpy(name, mask)
    if array.dtype.kind not in "bf":
        raise TypeError(
            f"{name} has dtype {array.dtype}, expected bool (True = masked) or floating point, as "
            f"PyTorch does: pass {name} != 0 if anything but 0 means masked"
        )
    return array


def _may_attend(masked: Array) -> Array:
    return ~masked if masked.dtype.kind == "b" else masked


def _additive(masked: Array) -> Array:
    return np.where(masked, -np.inf, 0.0) if masked.dtype.kind == "b" else masked
