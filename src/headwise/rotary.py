"""Rotary position embeddings: queries and keys turned by angles that grow with their positions.

The dot product of a turned query and a turned key then depends on how far apart they stand, not on
where. Turn both before attention; values stay as they are.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from headwise._arrays import Array, like, rounded, to_numpy, to_operand, widen, working_dtype
from headwise._errors import shape_text
from headwise._numbers import finite_number, whole_number
from headwise.heads import split_heads

ArrayT = TypeVar("ArrayT")


def rotary_embedding(
    x: ArrayT,
    cos: Any,
    sin: Any,
    position_ids: Any = None,
    *,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    num_heads: int | None = None,
) -> ArrayT:
    """Turn each pair of a head's dimensions by the angle of its position.

    A pair ``(a, b)`` becomes ``(a · cos - b · sin, a · sin + b · cos)``. Pair i is dimensions i and
    ``i + rotary_dim / 2``, or dimensions 2i and 2i + 1 where `interleaved`.

    Parameters
    ----------
    x
        Queries or keys, ``(batch, num_heads, seq_len, head_dim)``; or, with `num_heads`, before
        their heads are split: ``(batch, seq_len, num_heads · head_dim)``.
    cos, sin
        Cosines and sines of the angles, one for each pair. With `position_ids` a table by position,
        ``(length, rotary_dim / 2)``, as `rotary_caches` makes it. Without, those of x's own
        positions: ``(seq_len, rotary_dim / 2)``, or ``(batch, seq_len, rotary_dim / 2)``.
    position_ids
        Whole numbers ``(batch, seq_len)``, or ``(seq_len,)`` for all items: rows of the table.
    interleaved
        Whether a pair's dimensions lie side by side; else they lie half of `rotary_dim` apart.
    rotary_dim
        How many dimensions are turned, from the first on; the others pass through. None is all.
    num_heads
        Needed where x has 3 dimensions.

    Returns
    -------
    array
        Of x's shape, array type and dtype. 16-bit inputs are turned in float32.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, what was expected, what came and what to do.

    See Also
    --------
    headwise.rotary_caches : makes ``cos`` and ``sin``.

    Notes
    -----
    Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding". A model's
    weights fit one layout of pairs only: GPT-J's are interleaved, Llama's, as Transformers
    stores them, are not.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> query = np.ones((1, 1, 3, 4))
    >>> cos, sin = headwise.rotary_caches(3, 4)
    >>> headwise.rotary_embedding(query, cos, sin)[0, 0].round(2)
    array([[ 1.  ,  1.  ,  1.  ,  1.  ],
           [-0.3 ,  0.99,  1.38,  1.01],
           [-1.33,  0.98,  0.49,  1.02]])
    """
    array = to_operand("x", x)
    heads = _heads_apart(array, num_heads)
    turned = _rotary_dim(rotary_dim, heads.shape[-1])
    working = working_dtype(array.dtype)
    positions = _positions(position_ids, heads)
    tables = [_table(name, t, positions, heads, turned) for name, t in (("cos", cos), ("sin", sin))]
    c, s = (t.astype(working)[..., None, :, :] for t in tables)
    out = np.empty(array.shape, working)
    with np.errstate(invalid="ignore", over="ignore"):
        _turn(widen(heads), c, s, _heads_apart(out, num_heads), _pairs(turned, interleaved))
    return like(x, rounded(out, array.dtype))  # type: ignore[no-any-return]


def rotary_caches(
    length: int, dim: int, base: float = 10000.0, *, dtype: Any = np.float64
) -> tuple[Array, Array]:
    """Return cosines and sines for `rotary_embedding`, by position.

    Pair i of position p is turned by ``p · base^(-2i / dim)`` radians.

    Parameters
    ----------
    length
        How many positions, from 0 on.
    dim
        How many dimensions are turned: ``head_dim``, or ``rotary_dim`` where fewer; even.
    base
        The slowest pair turns about ``base`` times as slowly as the first; greater than 0.
    dtype
        float16, float32 or float64. Angles are float64 in any case: rounded angles of far
        positions would be off by whole degrees.

    Returns
    -------
    (array, array)
        Cosines and sines, each ``(length, dim / 2)``.

    Raises
    ------
    TypeError, ValueError
        For a size that is no whole number or negative, an odd ``dim``, another dtype.

    Notes
    -----
    Su et al. 2021, section 3.2.2, whose base is 10000; later models take larger ones.

    Examples
    --------
    >>> import headwise
    >>> cos, sin = headwise.rotary_caches(2, 4)
    >>> cos.round(4)
    array([[1.    , 1.    ],
           [0.5403, 1.    ]])
    """
    rows, size = whole_number("length", length), _even("dim", dim)
    try:
        kind = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype must be float16, float32 or float64, got {dtype!r}") from None
    if kind.kind != "f" or kind.itemsize > 8:
        raise TypeError(f"dtype must be float16, float32 or float64, got {kind}")
    speeds = _base(base) ** (-np.arange(0, size, 2) / max(size, 1))
    angles = np.arange(rows)[:, None] * speeds
    return np.cos(angles).astype(kind), np.sin(angles).astype(kind)


def _turn(x: Array, cos: Array, sin: Array, out: Array, pairs: tuple[slice, slice]) -> None:
    """Write x to out with its pairs turned; all are (batch, num_heads, seq_len, dims)."""
    first, second = pairs
    a, b = x[..., first], x[..., second]
    turned = 2 * cos.shape[-1]
    out[..., turned:] = x[..., turned:]
    out[..., first] = a * cos - b * sin
    out[..., second] = a * sin + b * cos


def _pairs(turned: int, interleaved: Any) -> tuple[slice, slice]:
    """Return where the first and the second dimension of each pair lie."""
    if not isinstance(interleaved, bool | np.bool_):
        raise TypeError(f"interleaved must be True or False, got {interleaved!r}")
    if interleaved:
        return slice(0, turned, 2), slice(1, turned, 2)
    return slice(turned // 2), slice(turned // 2, turned)


def _heads_apart(x: Array, num_heads: int | None) -> Array:
    """View x as (batch, num_heads, seq_len, head_dim)."""
    if x.ndim == 3 and num_heads is not None:
        return split_heads(x, num_heads)
    if x.ndim != 4:
        raise ValueError(
            "x must have shape (batch, num_heads, seq_len, head_dim), or (batch, seq_len, "
            f"num_heads · head_dim) with num_heads=, got {shape_text(x.shape)} and "
            f"num_heads={num_heads}"
        )
    if num_heads is not None and num_heads != x.shape[1]:
        raise ValueError(
            f"num_heads must be None or that of x, {x.shape[1]}, where x has 4 dimensions (batch, "
            f"num_heads, seq_len, head_dim), got {num_heads!r} and shape {shape_text(x.shape)}"
        )
    return x


def _rotary_dim(rotary_dim: Any, head_dim: int) -> int:
    name = "rotary_dim" if rotary_dim is not None else "head_dim, the last of x, without rotary_dim"
    turned = _even(name, head_dim if rotary_dim is None else rotary_dim)
    if turned > head_dim:
        raise ValueError(f"rotary_dim must be at most head_dim {head_dim}, got {turned}")
    return turned


def _positions(position_ids: Any, x: Array) -> Array | None:
    """Check position_ids: whole numbers that broadcast to (batch, seq_len)."""
    if position_ids is None:
        return None
    array = to_numpy("position_ids", position_ids)
    if array.dtype.kind not in "iu":
        raise TypeError(f"position_ids must hold whole numbers, got dtype {array.dtype}")
    batch, seq_len = x.shape[0], x.shape[2]
    if array.shape not in {(batch, seq_len), (1, seq_len), (seq_len,)}:
        raise ValueError(
            f"position_ids must have shape (batch, seq_len) = ({batch}, {seq_len}), or "
            f"({seq_len},) for all items, got {shape_text(array.shape)}"
        )
    return array


def _table(name: str, table: Any, positions: Array | None, x: Array, turned: int) -> Array:
    """Return the numbers of x's own positions, (..., seq_len, rotary_dim / 2)."""
    array = widen(to_operand(name, table))
    batch, seq_len, half = x.shape[0], x.shape[2], turned // 2
    if positions is None:
        allowed = {(batch, seq_len, half), (1, seq_len, half), (seq_len, half)}
        fits, want = array.shape in allowed, f"(batch, seq_len, rotary_dim / 2) = ({batch}, "
        want += f"{seq_len}, {half}) or ({seq_len}, {half}) without position_ids"
    else:
        fits, want = array.ndim == 2 and array.shape[1] == half, "(length, rotary_dim / 2) = "
        want += f"(length, {half}) with position_ids"
    if not fits:
        raise ValueError(f"{name} must have shape {want}, got {shape_text(array.shape)}")
    return array if positions is None else _rows(name, array, positions)


def _rows(name: str, table: Array, positions: Array) -> Array:
    if positions.size and (positions.min() < 0 or positions.max() >= len(table)):
        raise ValueError(
            f"position_ids must be at least 0 and below the length of {name}, {len(table)}, got "
            f"{positions.min()} to {positions.max()}: make longer tables with rotary_caches"
        )
    return np.asarray(table[positions])


def _even(name: str, x: Any) -> int:
    number = whole_number(name, x)
    if number % 2:
        raise ValueError(f"{name} must be even, since dimensions turn in pairs, got {number}")
    return number


def _base(base: Any) -> float:
    number = finite_number("base", base)
    if number <= 0:
        raise ValueError(f"base must be greater than 0, got {number}")
    return number
