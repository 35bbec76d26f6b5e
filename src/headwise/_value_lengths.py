"""How long values are, where they lie or where a projection takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise._arrays import Array, to_numpy, widen
from headwise._errors import shape_text
from headwise._prepare import Prepared


def value_lengths(prepared: Prepared, projection: Any) -> Array:
    """Return ``‖v_j W_O‖`` of every head and key, or ``‖v_j‖``: ``(..., num_heads, kv_len)``."""
    sizes, working = prepared.sizes, prepared.working_dtype
    value = widen(prepared.value)
    kv_heads = value.shape[-3] if value.ndim > 2 else 1
    if projection is not None:
        weight = np.asarray(widen(to_numpy("projection", projection)), working)
        if weight.ndim != 3 or weight.shape[:2] != (sizes.heads, sizes.value_dim):
            raise ValueError(
                "projection must have shape (num_heads, value_dim, d_model) = "
                f"({sizes.heads}, {sizes.value_dim}, ...), got {shape_text(weight.shape)}"
            )
    lengths = np.empty((*sizes.outer, sizes.heads, sizes.kv_len), np.float64)
    value = value.reshape(*value.shape[:-3], kv_heads, *value.shape[-2:])
    for head in range(sizes.heads):
        v = value[..., head * kv_heads // sizes.heads, :, :]
        arrived = v if projection is None else np.asarray(v, working) @ weight[head]
        lengths[..., head, :] = _lengths(arrived)
    return lengths.reshape(*sizes.rows[:-1], sizes.kv_len)


def _lengths(rows: Array) -> Array:
    """Return the lengths of rows; in float64 where their squares would leave the precision."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("...d,...d->...", rows, rows)
        if not np.all((squares > 1e-25) & (squares < 1e25)):
            squares = np.sum(np.square(rows, dtype=np.float64), axis=-1)
    return np.asarray(np.sqrt(squares))
