"""What is added to the scores: structured biases as small immutable objects.

They are never made dense: kernels compute them from the positions of query and key. Biases add up
with ``+``, with each other and with arrays of floats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise._arrays import to_additive, to_numbers, widen
from headwise._errors import shape_text
from headwise._mask_kinds import Value, query_positions
from headwise._numbers import whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray


_STEEPEST = 2.0**60  # times the farthest distance it is still a float32


class Bias(Value):
    """A bias as an object. Make one with `alibi` or `relative`; add up with ``+``.

    Biases are immutable values: equal ones compare equal and have the same hash.
    """

    def _numbers(self, query_len: int, kv_len: int, query_offset: Any, dtype: Any) -> Any:
        """Return the bias as an array of ``dtype``, computed in it."""
        raise NotImplementedError

    def to_array(self, query_len: int, kv_len: int, query_offset: Any = 0) -> NDArray[np.float64]:
        """Return the bias as an array ``(..., num_heads, query_len, kv_len)``, for debugging.

        Examples
        --------
        >>> import headwise
        >>> headwise.alibi([0.5]).to_array(2, 3)
        array([[[ 0. , -0.5, -1. ],
                [-0.5,  0. , -0.5]]])
        """
        return np.array(self._numbers(query_len, kv_len, query_offset, np.float64))

    def __add__(self, other: Any) -> Bias:
        if other is None:
            raise TypeError("a bias was added to None, expected a bias or an array of floats")
        return Sum(self, other if isinstance(other, Bias) else DenseBias(other))

    __radd__ = __add__
    __array_ufunc__ = None  # array + bias comes here, too


@dataclass(frozen=True, eq=False, repr=False)
class Alibi(Bias):
    """``-slope · |i + query_offset - j|``, with one slope for each head."""

    slopes: NDArray[np.float64]

    def _numbers(self, query_len: int, kv_len: int, query_offset: Any, dtype: Any) -> Any:
        distance = abs(query_positions(query_len, query_offset) - np.arange(kv_len))
        return 0 - self.slopes.astype(dtype)[:, None, None] * distance.astype(dtype)

    def _identity(self) -> tuple[Any, ...]:
        return (self.slopes.tobytes(),)

    def __repr__(self) -> str:
        return f"alibi({self.slopes.tolist()})"


@dataclass(frozen=True, eq=False, repr=False)
class Relative(Bias):
    """A number for each distance of the key from the query, by head."""

    table: NDArray[np.float64]

    def _numbers(self, query_len: int, kv_len: int, query_offset: Any, dtype: Any) -> Any:
        reach = self.table.shape[-1] // 2
        ahead = np.arange(kv_len) - query_positions(query_len, query_offset)
        heads = np.arange(len(self.table))[:, None, None]
        return self.table.astype(dtype)[heads, np.clip(ahead, -reach, reach) + reach]

    def _identity(self) -> tuple[Any, ...]:
        return (self.table.shape, self.table.tobytes())

    def __repr__(self) -> str:
        return f"relative(<table {shape_text(self.table.shape)}>)"


@dataclass(frozen=True, eq=False, repr=False)
class DenseBias(Bias):
    """An array of floats as a bias, so that it adds to structured ones. It is not copied."""

    array: Any

    def _numbers(self, query_len: int, kv_len: int, query_offset: Any, dtype: Any) -> Any:  # noqa: ARG002
        array = np.atleast_2d(widen(to_additive("bias", self.array)))
        shape = np.broadcast_shapes(array.shape, (query_len, kv_len))
        return np.broadcast_to(array.astype(dtype), shape)

    def _identity(self) -> tuple[Any, ...]:
        return (id(self.array),)  # as a mask of an array

    def __repr__(self) -> str:
        return f"<bias {shape_text(np.shape(self.array))}>"


@dataclass(frozen=True, eq=False, repr=False)
class Sum(Bias):
    """Two biases, added."""

    one: Bias
    other: Bias

    def _numbers(self, query_len: int, kv_len: int, query_offset: Any, dtype: Any) -> Any:
        one = self.one._numbers(query_len, kv_len, query_offset, dtype)
        return add(one, self.other._numbers(query_len, kv_len, query_offset, dtype))

    def _identity(self) -> tuple[Any, ...]:
        return tuple(parts_of(self))

    def __repr__(self) -> str:
        return f"{self.one!r} + {self.other!r}"


def add(one: Any, other: Any) -> Any:
    """Add two arrays of biases: -inf in either hides, and finite numbers have a finite sum."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = one + other
        most = np.finfo(total.dtype).max
        finite = np.isfinite(one) & np.isfinite(other)
        total = np.where(finite, np.clip(total, -most, most), total)
    return np.where(np.isneginf(one) | np.isneginf(other), -np.inf, total).astype(total.dtype)


def parts_of(bias: Bias) -> list[Bias]:
    """Return what a bias is the sum of."""
    return [*parts_of(bias.one), *parts_of(bias.other)] if isinstance(bias, Sum) else [bias]


def alibi(slopes: Any) -> Bias:
    """Return the bias of ALiBi: scores fall with distance, at a slope of each head's own.

    The score of query i and key j gets ``-slope · |i + query_offset - j|``.

    Parameters
    ----------
    slopes
        ``(num_heads,)``, within ±2**60; `alibi_slopes` gives the usual ones.

    Notes
    -----
    Press, Smith & Lewis 2022, "Train Short, Test Long". Without a causal mask the distance counts
    in both directions alike.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 2, 3, 4))
    >>> bias = headwise.alibi(headwise.alibi_slopes(2))
    >>> headwise.observe(x, x, x, headwise.causal(), bias=bias).weights(heads=0, queries=2).round(3)
    array([[0.313, 0.333, 0.354]])
    """
    array = _numbers("slopes", slopes)
    if array.ndim != 1:
        raise ValueError(f"slopes must have shape (num_heads,), got {shape_text(array.shape)}")
    if not np.all(abs(array) <= _STEEPEST):
        raise ValueError(f"slopes must lie within ±2**60, got {array.tolist()}"[:200])
    return Alibi(array)


def alibi_slopes(num_heads: int) -> NDArray[np.float64]:
    """Return the slopes of Press et al. for a number of heads.

    For a power of two, ``2^(-8h/num_heads)`` for h = 1, 2, …; else those of the power of two
    below, followed by every other one of the next power's.

    Examples
    --------
    >>> import headwise
    >>> headwise.alibi_slopes(8).tolist()[:3]
    [0.5, 0.25, 0.125]
    """
    num_heads = whole_number("num_heads", num_heads, least=1)
    below = 1 << (num_heads.bit_length() - 1)
    slopes = 2.0 ** (-8 * np.arange(1, below + 1) / below)
    more = 2.0 ** (-4 * np.arange(1, 2 * below + 1, 2) / below)
    return np.concatenate([slopes, more[: num_heads - below]])


def relative(table: Any) -> Bias:
    """Return a bias that depends on how far the key lies from the query, learned for each head.

    The score of query i and key j gets ``table[h, clip(j - (i + query_offset), -m, m) + m]``, with
    m the largest distance of the table.

    Parameters
    ----------
    table
        ``(num_heads, 2·m + 1)``: from m keys before the query, over its own position in the
        middle, to m keys after it. -inf hides a key.

    Notes
    -----
    As in Shaw et al. 2018; T5's buckets become such a table by looking up the bucket of each
    distance.

    Examples
    --------
    >>> import headwise
    >>> headwise.relative([[-1.0, 0.0, -2.0]]).to_array(3, 3)
    array([[[ 0., -2., -2.],
            [-1.,  0., -2.],
            [-1., -1.,  0.]]])
    """
    array = _numbers("table", table)
    if array.ndim != 2 or array.shape[-1] % 2 == 0:
        raise ValueError(
            "table must have shape (num_heads, 2 · max_distance + 1), got "
            f"{shape_text(array.shape)}"
        )
    return Relative(array)


def _numbers(name: str, x: Any) -> NDArray[np.float64]:
    """Return a private, read-only float64 array."""
    array = to_numbers(name, x)
    array.flags.writeable = False
    return array
