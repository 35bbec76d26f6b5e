"""Memory while a model is watched: what stays, apart from what comes and goes.

A model allocates and frees hundreds of MB at every layer. What stays, scattered among that, would
keep the allocator from giving any of it back: memory would grow by several times its size. So large
arrays that stay get memory of their own, and the allocator is asked to give back what is free.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache
from typing import Any

import numpy as np

from headwise._arrays import Array

_LEAST = 1 << 15  # bytes; smaller ones do no harm


def apart(array: Any, dtype: Any = None) -> Array:
    """Return a copy of an array in memory mapped for it alone, as long as anybody refers to it.

    Examples
    --------
    >>> import numpy as np
    >>> from headwise.lens.keeping import apart
    >>> apart(np.arange(3), np.float32)
    array([0., 1., 2.], dtype=float32)
    """
    array = np.asarray(array)
    dtype = np.dtype(dtype or array.dtype)
    size = array.size * dtype.itemsize
    if size < _LEAST:
        return np.array(array, dtype)
    copy = np.frombuffer(mmap.mmap(-1, size), dtype, array.size).reshape(array.shape)
    copy[...] = array
    return copy


def give_back() -> None:
    """Ask the allocator to give free memory back to the system, where it can be asked."""
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim  # the GNU C library's
    except (AttributeError, OSError, TypeError):
        return None
