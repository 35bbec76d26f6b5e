"""Keys and values of the tokens so far, for decoding."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from headwise._arrays import (
    BFLOAT16,
    FLOATS,
    Array,
    dtype_name,
    is_torch,
    like,
    rounded,
    to_operand,
)
from headwise._errors import listing, shape_text
from headwise._numbers import whole_number

_LEAST = 64  # positions that are made room for at once


class KVCache:
    """Keys and values that grow at the end, in place.

    Each key/value head's rows lie one after another, with room behind them, so that appending
    copies what is new and nothing else, growing is amortised, and attention reads the cache as it
    reads any array.

    Parameters
    ----------
    capacity
        Positions to make room for at once.
    dtype
        What to store: a name or dtype of float16, bfloat16, float32 or float64. None: what the
        first keys have. With 16 bits a cache takes half the memory of float32, and a float32 query
        attends to it as it is.

    Attributes
    ----------
    key, value
        ``(..., num_kv_heads, length, dim)``: views of the cache, not copies. NumPy arrays, or
        PyTorch tensors where those were appended; bfloat16 is ml_dtypes' in NumPy. A view taken
        before `append` or `truncate` goes stale.
    capacity
        Positions there is room for.
    nbytes
        Bytes allocated.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> rng = np.random.default_rng(0)
    >>> cache = headwise.KVCache(dtype="float16")
    >>> for new in (5, 1, 1):  # the prompt, then token after token
    ...     q, k, v = (rng.normal(size=(1, 2, new, 8)).astype(np.float32) for _ in range(3))
    ...     cache.append(k, v)
    ...     output = headwise.scaled_dot_product_attention(
    ...         q, cache.key, cache.value, headwise.causal(), query_offset="lower_right"
    ...     )
    >>> cache
    <KVCache: 7 of 64 positions, key (1, 2, 7, 8), value (1, 2, 7, 8), float16>
    >>> cache.truncate(6)  # take the last token back
    >>> len(cache)
    6
    """

    def __init__(self, *, capacity: int = 0, dtype: Any = None) -> None:
        self._room = whole_number("capacity", capacity)
        self._dtype = None if dtype is None else _dtype(dtype)
        self._converts = dtype is not None
        self._arrays: tuple[Array, Array] | None = None
        self._length = 0
        self._tensors = False

    def append(self, key: Any, value: Any) -> None:
        """Append keys ``(..., num_kv_heads, new_len, head_dim)`` and their values.

        Raises
        ------
        TypeError, ValueError
            Where they do not fit one another or what is there; the cache is then unchanged.
        """
        new = to_operand("key", key), to_operand("value", value)
        dtype = self._dtype or new[0].dtype.newbyteorder("=")
        for name, array in zip(("key", "value"), new, strict=True):
            self._check_dtype(name, array, dtype)
            self._check_shape(name, array, new[0])
        first, last = self._length, self._length + new[0].shape[-2]
        for stored, array in zip(self._grown(new, last, dtype), new, strict=True):
            stored[..., first:last, :] = rounded(array, dtype)
        self._length, self._dtype, self._tensors = last, dtype, is_torch(key)

    def _check_dtype(self, name: str, array: Array, dtype: np.dtype[Any]) -> None:
        if not self._converts and array.dtype.newbyteorder("=") != dtype:
            stored = dtype_name(np.empty(0, dtype))
            raise TypeError(
                f"{name} is {dtype_name(array)}, and the cache stores {stored}: convert it, or "
                "make the cache with dtype=, which converts what is appended"
            )

    def _check_shape(self, name: str, array: Array, key: Array) -> None:
        if array.ndim < 2:
            raise ValueError(
                f"{name} must have at least 2 dimensions (..., new_len, dim), got shape "
                f"{shape_text(array.shape)}"
            )
        want: tuple[int, ...] = (*key.shape[:-1], array.shape[-1])
        if self._arrays is not None:
            stored = self._arrays[name == "value"]
            want = (*stored.shape[:-2], key.shape[-2], stored.shape[-1])
        if array.shape != want:
            raise ValueError(
                f"{name} must have shape {shape_text(want)} to go with the key and what is in the "
                f"cache, got {shape_text(array.shape)}"
            )

    def _grown(
        self, new: tuple[Array, Array], length: int, dtype: np.dtype[Any]
    ) -> tuple[Array, Array]:
        """Return the stored arrays, with room for so many positions."""
        if self._arrays is None or self.capacity < length:
            grown = _LEAST if self._arrays is None else self.capacity * 3 // 2
            room = max(length, self._room, grown)
            fresh = [_allocated((*a.shape[:-2], room, a.shape[-1]), dtype) for a in new]
            for old, array in zip(self._arrays or (), fresh, strict=False):
                array[..., : self._length, :] = old[..., : self._length, :]
            self._arrays = fresh[0], fresh[1]
        return self._arrays

    def truncate(self, length: int) -> None:
        """Keep the first ``length`` positions and forget the rest; the room stays.

        Raises
        ------
        ValueError
            Where there are fewer.
        """
        kept = whole_number("length", length)
        if kept > self._length:
            raise ValueError(f"length must be at most {self._length}, what is cached, got {kept}")
        self._length = kept

    def __len__(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        """Positions there is room for."""
        return self._room if self._arrays is None else int(self._arrays[0].shape[-2])

    @property
    def nbytes(self) -> int:
        """Bytes allocated."""
        return sum(array.nbytes for array in self._arrays or ())

    @property
    def key(self) -> Any:
        """``(..., num_kv_heads, length, head_dim)``."""
        return self._view(0)

    @property
    def value(self) -> Any:
        """``(..., num_kv_heads, length, value_dim)``."""
        return self._view(1)

    def _view(self, which: int) -> Any:
        if self._arrays is None:
            raise ValueError("the cache is empty: append keys and values first")
        view = self._arrays[which][..., : self._length, :]
        if self._tensors:
            return like(import_module("torch").empty(0), view)
        return _as_ml_dtypes(view) if view.dtype == BFLOAT16 else view

    def __repr__(self) -> str:
        if self._arrays is None:
            return f"<KVCache: empty, room for {self.capacity} positions>"
        shapes = (shape_text(a[..., : self._length, :].shape) for a in self._arrays)
        shape_of_key, shape_of_value = shapes
        return (
            f"<KVCache: {self._length} of {self.capacity} positions, key {shape_of_key}, value "
            f"{shape_of_value}, {dtype_name(self._arrays[0])}>"
        )


def _allocated(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError):
        raise MemoryError(f"the cache cannot hold an array of shape {shape_text(shape)}") from None


def _dtype(dtype: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a name or of a dtype of NumPy, ml_dtypes or PyTorch."""
    name = getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    if name == "bfloat16":
        return BFLOAT16
    try:
        known = np.dtype(name)
    except TypeError:
        known = np.dtype(object)
    if known.name not in FLOATS:
        raise TypeError(f"dtype must be {listing(FLOATS)}, got {dtype!r}")
    return known.newbyteorder("=")


def _as_ml_dtypes(view: Array) -> Array:
    """View bfloat16 numbers by their name, where ml_dtypes, which has it, is installed."""
    try:
        return view.view(import_module("ml_dtypes").bfloat16)
    except ImportError:
        return view
