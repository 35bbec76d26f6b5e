"""Who may attend to whom: masks as small immutable objects.

True means *may attend*, everywhere. A structured mask such as `causal` is never made dense: the
kernels ask it for the keys that each query sees and skip the rest. Masks combine with ``&`` (both
must show a key) and ``|`` (either may), with each other and with boolean arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headwise._arrays import to_numpy
from headwise._mask_kinds import Band, Documents, Lengths, Mask, Prefix
from headwise._numbers import whole_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Mask", "causal", "documents", "lengths", "prefix", "window"]


def causal() -> Mask:
    """Return the causal mask: a query sees its own position's key and those before it.

    Key ``j`` is visible to query ``i`` where ``j <= i + query_offset``; ``query_offset`` is an
    argument of the attention call, because other things depend on positions, too.

    Examples
    --------
    >>> import headwise
    >>> headwise.causal()
    causal()
    >>> headwise.causal() & [[True, False, True]]
    causal() & <boolean mask (1, 3)>
    """
    return Band(right=0)


def window(left: int | None = None, right: int | None = None) -> Mask:
    """Return a sliding window: keys at most ``left`` before and ``right`` after the query.

    Key ``j`` is visible to query ``i`` where ``-left <= j - (i + query_offset) <= right``: the
    query's own position does not count. None is unbounded.

    Raises
    ------
    TypeError, ValueError
        For what is neither None nor a whole number of at least 0.

    Notes
    -----
    A model's ``sliding_window=w`` commonly means w keys with the query's own: ``window(w - 1, 0)``.

    Examples
    --------
    >>> import headwise
    >>> headwise.window(1, 0).to_array(4, 4).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [0, 1, 1, 0],
           [0, 0, 1, 1]])
    """
    return Band(_bound("left", left), _bound("right", right))


def lengths(kv_lengths: Any, query_lengths: Any = None, *, left: bool = False) -> Mask:
    """Return a padding mask: of each batch item only so many keys (and queries) are real.

    Parameters
    ----------
    kv_lengths
        Whole numbers, one for each batch item (or one for all): how many keys are real.
    query_lengths
        Likewise of the queries; a query that is not real sees no key. None: all are real.
    left
        False: padding is on the right, the first ones are real. True: the last ones are.

    Raises
    ------
    TypeError, ValueError
        For what is no whole number of at least 0; a length beyond the array's is refused when the
        mask is used.

    Examples
    --------
    >>> import headwise
    >>> headwise.lengths([1, 3]).to_array(1, 3)[:, 0, 0].astype(int)
    array([[1, 0, 0],
           [1, 1, 1]])
    """
    if not isinstance(left, bool | np.bool_):
        raise TypeError(f"left must be True (padding on the left) or False, got {left!r}")
    queries = None if query_lengths is None else _counts("query_lengths", query_lengths)
    return Lengths(_counts("kv_lengths", kv_lengths), queries, bool(left))


def documents(query_ids: Any, key_ids: Any = None) -> Mask:
    """Return the mask of packed sequences: a query sees the keys whose id equals its own.

    Parameters
    ----------
    query_ids
        Whole numbers ``(query_len,)`` or ``(..., query_len)``, one row for each batch item.
    key_ids
        Likewise ``(..., kv_len)``; None is ``query_ids``.

    Examples
    --------
    >>> import headwise
    >>> headwise.documents([7, 7, 9]).to_array(3, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """
    queries = _ids("query_ids", query_ids)
    return Documents(queries, queries if key_ids is None else _ids("key_ids", key_ids))


def prefix(n: Any) -> Mask:
    """Return a mask of the first ``n`` keys, visible to every query; join it with ``|``.

    Parameters
    ----------
    n
        A whole number, or one for each batch item.

    Examples
    --------
    A prefix language model: the first two tokens see one another, the rest is causal.

    >>> import headwise
    >>> (headwise.causal() | headwise.prefix(2)).to_array(3, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 0],
           [1, 1, 1]])
    """
    return Prefix(_counts("n", n))


def _bound(name: str, bound: Any) -> int | None:
    if bound is None:
        return None
    number = whole_number(f"{name}, where it is not None (unbounded),", bound, least=None)
    if number < 0:
        raise ValueError(
            f"{name} must be at least 0, or None where it is unbounded (-1 does not mean that "
            f"here), got {number}"
        )
    return number


def _integers(name: str, x: Any) -> NDArray[np.int64]:
    """Return a private, read-only array of whole numbers."""
    array = to_numpy(name, x)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"{name} must hold whole numbers, got dtype {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit 64-bit signed integers, got {array.max()}")
    array = np.array(array, dtype=np.int64)
    array.flags.writeable = False
    return array


def _counts(name: str, x: Any) -> NDArray[np.int64]:
    array = _integers(name, x)
    if array.size and array.min() < 0:
        raise ValueError(f"{name} must be at least 0, got {array.min()}")
    return array


def _ids(name: str, x: Any) -> NDArray[np.int64]:
    array = _integers(name, x)
    if array.ndim < 1:
        raise ValueError(f"{name} must hold one id for each position, got the number {array}")
    return array
