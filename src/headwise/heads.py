"""Heads: splitting a model's dimension, attending in each head, and putting the heads together."""

from __future__ import annotations

from typing import Any, TypeVar, Unpack

from headwise._arrays import to_numpy
from headwise._errors import shape_text
from headwise._numbers import whole_number
from headwise._prepare import Options
from headwise.attention import scaled_dot_product_attention

ArrayT = TypeVar("ArrayT")


def split_heads(x: ArrayT, num_heads: int) -> ArrayT:
    """Split the last dimension into heads and move them in front of the sequence.

    Parameters
    ----------
    x
        ``(batch, seq_len, d_model)``, of any array library; any number of dimensions from 2 on.
    num_heads
        How many heads; must divide ``d_model``.

    Returns
    -------
    array
        ``(batch, num_heads, seq_len, d_k)`` with ``d_k = d_model // num_heads``: head h is the h-th
        run of d_k consecutive dimensions. A view of ``x`` where its memory allows.

    Raises
    ------
    ValueError
        Where ``num_heads`` does not divide ``d_model``, is below 1, or ``x`` has a rank under 2.

    See Also
    --------
    combine_heads : the inverse.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.arange(8).reshape(1, 2, 4)
    >>> headwise.split_heads(x, 2)
    array([[[[0, 1],
             [4, 5]],
            [[2, 3],
             [6, 7]]]])
    """
    array = _as_array(x)
    shape = tuple(array.shape)
    num_heads = whole_number("num_heads", num_heads, least=1)
    if len(shape) < 2:
        raise ValueError(
            "x must have at least 2 dimensions (..., seq_len, d_model), got shape "
            f"{shape_text(shape)}"
        )
    if shape[-1] % num_heads:
        raise ValueError(
            f"num_heads must divide d_model: {num_heads} heads do not divide the last dimension "
            f"{shape[-1]} of shape {shape_text(shape)}"
        )
    apart = (*shape[:-1], num_heads, shape[-1] // num_heads)
    return _swap(_reshape(array, apart))  # type: ignore[no-any-return]


def combine_heads(x: ArrayT) -> ArrayT:
    """Put heads side by side again: the inverse of `split_heads`.

    Parameters
    ----------
    x
        ``(batch, num_heads, seq_len, d_k)``; any number of dimensions from 3 on.

    Returns
    -------
    array
        ``(batch, seq_len, num_heads · d_k)``.

    Raises
    ------
    ValueError
        Where ``x`` has a rank under 3.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.arange(8).reshape(1, 2, 4)
    >>> headwise.combine_heads(headwise.split_heads(x, 2))
    array([[[0, 1, 2, 3],
            [4, 5, 6, 7]]])
    """
    array = _as_array(x)
    shape = tuple(array.shape)
    if len(shape) < 3:
        raise ValueError(
            "x must have at least 3 dimensions (..., num_heads, seq_len, d_k), got shape "
            f"{shape_text(shape)}"
        )
    *lead, num_heads, seq_len, d_k = shape
    return _reshape(_swap(array), (*lead, seq_len, num_heads * d_k))  # type: ignore[no-any-return]


def _as_array(x: Any) -> Any:
    """Take an array of any library as it is, and lists of numbers as NumPy does."""
    if isinstance(x, list | tuple):
        return to_numpy("x", x)
    if not hasattr(x, "shape"):
        raise TypeError(f"x must be an array or nested lists of numbers, got {type(x).__name__}")
    return x


def _reshape(x: Any, shape: tuple[int, ...]) -> Any:
    return x.reshape(shape) if hasattr(x, "reshape") else x.__array_namespace__().reshape(x, shape)


def _swap(x: Any) -> Any:
    """Exchange the axes of heads and sequence, -3 and -2."""
    if hasattr(x, "swapaxes"):
        return x.swapaxes(-3, -2)
    axes = list(range(x.ndim))
    axes[-3], axes[-2] = axes[-2], axes[-3]
    return x.__array_namespace__().permute_dims(x, tuple(axes))


def multi_head_attention_per_head(
    query: ArrayT,
    key: Any,
    value: Any,
    num_heads: int,
    mask: Any = None,
    *,
    num_kv_heads: int | None = None,
    **options: Unpack[Options],
) -> ArrayT:
    """Split query, key and value into heads and attend in each; the heads stay apart.

    Parameters
    ----------
    query
        ``(batch, query_len, d_model)``.
    key, value
        ``(batch, kv_len, num_kv_heads · d_k)``.
    num_heads
        Heads of the query.
    mask
        As in `headwise.scaled_dot_product_attention`, which is called once.
    num_kv_heads
        Heads of key and value, where fewer (grouped heads); None is ``num_heads``.
    **options
        ``query_offset``, ``scale``, ``bias``, ``softcap``, ``sink_logits`` and ``num_threads``, as
        there.

    Returns
    -------
    array
        ``(batch, num_heads, query_len, d_k)``.

    Raises
    ------
    TypeError, ValueError
        As `split_heads` and `headwise.scaled_dot_product_attention`.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.random.default_rng(0).normal(size=(2, 10, 512)).astype(np.float32)
    >>> headwise.multi_head_attention_per_head(x, x, x, num_heads=8).shape
    (2, 8, 10, 64)
    """
    if "out" in options:
        raise TypeError("out is an option of scaled_dot_product_attention alone: leave it out")
    kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    q, k, v = (
        split_heads(query, num_heads),
        split_heads(key, kv_heads),
        split_heads(value, kv_heads),
    )
    return scaled_dot_product_attention(q, k, v, mask, **options)


def multi_head_attention(
    query: ArrayT,
    key: Any,
    value: Any,
    num_heads: int,
    mask: Any = None,
    *,
    num_kv_heads: int | None = None,
    **options: Unpack[Options],
) -> ArrayT:
    """Attend in every head and put the heads side by side again, without any projection.

    Parameters and errors are those of `multi_head_attention_per_head`.

    Returns
    -------
    array
        ``(batch, query_len, num_heads · d_k)``.

    See Also
    --------
    headwise.MultiHeadAttention : the same between four projections.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.random.default_rng(0).normal(size=(2, 10, 512)).astype(np.float32)
    >>> headwise.multi_head_attention(x, x, x, num_heads=8, mask=headwise.causal()).shape
    (2, 10, 512)
    """
    head_outputs = multi_head_attention_per_head(
        query,
        key,
        value,
        num_heads,
        mask,
        num_kv_heads=num_kv_heads,
        **options,
    )
    return combine_heads(head_outputs)
