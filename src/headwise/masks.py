"""Who may attend to whom: masks as small immutable objects.

True means *may attend*, everywhere. A structured mask such as `causal` is never made dense: the
kernels ask it for the range of keys that each query sees and skip the rest. Masks combine with
``&``, with each other and with boolean arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise._arrays import to_numpy
from headwise._errors import listing, shape_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

UNBOUNDED = np.iinfo(np.int64).max
POLARITY = "in headwise True means may attend; where True means masked, pass ~mask"


@dataclass(frozen=True)
class Band:
    """The keys a query sees, as distances: ``-left <= j - (i + query_offset) <= right``."""

    left: int = UNBOUNDED
    right: int = UNBOUNDED

    def __and__(self, other: Band) -> Band:
        """Return the band of what both see."""
        return Band(min(self.left, other.left), min(self.right, other.right))


def query_positions(query_len: int, query_offset: Any = 0) -> NDArray[np.int64]:
    """Return where each query stands on the keys' axis, ``(query_len, 1)``.

    An array of offsets, one for each batch item, gives ``(..., 1, query_len, 1)``.
    """
    offset = np.asarray(query_offset, dtype=np.int64)
    if offset.ndim:
        offset = offset[..., None, None, None]
    return np.arange(query_len)[:, None] + offset


class Mask:
    """A structured mask. Use `causal` to make one; combine with ``&``."""

    def visible(self, i: int, j: int, query_offset: int = 0) -> bool:
        """Tell whether query ``i`` may attend to key ``j``, for people.

        With a boolean array that has further dimensions: whether it may in all of them.

        Examples
        --------
        >>> import headwise
        >>> headwise.causal().visible(3, 2), headwise.causal().visible(3, 4)
        (True, False)
        """
        raise NotImplementedError

    def to_array(self, query_len: int, kv_len: int, query_offset: Any = 0) -> NDArray[np.bool_]:
        """Return the mask as a boolean array ``(..., query_len, kv_len)``, for debugging.

        Examples
        --------
        >>> import headwise
        >>> headwise.causal().to_array(2, 3, query_offset=1)
        array([[ True,  True, False],
               [ True,  True,  True]])
        """
        raise NotImplementedError

    def __and__(self, other: Any) -> Mask:
        if other is None:
            raise TypeError("a mask was combined with None, expected a mask or a boolean array")
        return Both(self, other if isinstance(other, Mask) else Dense(other))

    __rand__ = __and__
    __array_ufunc__ = None  # array & mask comes here, too

    def __bool__(self) -> bool:
        raise TypeError("a mask is neither true nor false: combine masks with &, not with and")


@dataclass(frozen=True)
class Causal(Mask):
    """Key ``j`` is visible to query ``i`` where ``j <= i + query_offset``."""

    def visible(self, i: int, j: int, query_offset: int = 0) -> bool:
        """Tell whether the key is not after the query's position."""
        return j <= i + query_offset

    def to_array(self, query_len: int, kv_len: int, query_offset: Any = 0) -> NDArray[np.bool_]:
        """Return the lower triangle, ``query_offset`` to the right."""
        return np.asarray(np.arange(kv_len) <= query_positions(query_len, query_offset))

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """A boolean array as a mask, so that it combines with structured ones."""

    array: Any

    def visible(self, i: int, j: int, query_offset: int = 0) -> bool:
        """Tell whether the array says so, in all of its further dimensions."""
        array = self.to_array(1, 1, query_offset)
        row, column = (
            index if n > 1 else 0 for index, n in zip((i, j), array.shape[-2:], strict=True)
        )
        return bool(array[..., row, column].all())

    def to_array(self, query_len: int, kv_len: int, query_offset: Any = 0) -> NDArray[np.bool_]:
        """Return the array itself, broadcast over queries and keys."""
        del query_offset
        array = np.atleast_2d(boolean_mask(to_numpy("mask", self.array)))
        rows = query_len if array.shape[-2] == 1 else array.shape[-2]
        columns = kv_len if array.shape[-1] == 1 else array.shape[-1]
        return np.broadcast_to(array, (*array.shape[:-2], rows, columns))

    def __repr__(self) -> str:
        return f"<boolean mask {shape_text(np.shape(self.array))}>"


@dataclass(frozen=True)
class Both(Mask):
    """What two masks both show."""

    one: Mask
    other: Mask

    def visible(self, i: int, j: int, query_offset: int = 0) -> bool:
        """Tell whether both show the key."""
        masks = (self.one, self.other)
        return all(mask.visible(i, j, query_offset) for mask in masks)

    def to_array(self, query_len: int, kv_len: int, query_offset: Any = 0) -> NDArray[np.bool_]:
        """Return both masks' arrays, and-ed."""
        one = self.one.to_array(query_len, kv_len, query_offset)
        return one & self.other.to_array(query_len, kv_len, query_offset)

    def __repr__(self) -> str:
        return f"{self.one!r} & {self.other!r}"


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
    return Causal()


@dataclass(frozen=True)
class Lowered:
    """A mask as the kernels take it: a band, a boolean array and an additive one, each optional."""

    band: Band = Band()
    boolean: NDArray[np.bool_] | None = None
    additive: NDArray[Any] | None = None

    @property
    def positional(self) -> bool:
        """Whether it depends on where query 0 stands."""
        return self.band != Band()


def lower(mask: Any) -> Lowered:
    """Bring any form of the ``mask`` argument into the kernels' form.

    Raises
    ------
    TypeError, ValueError
        For what is no mask; the texts say what to do.
    """
    if mask is None:
        return Lowered()
    if isinstance(mask, Mask):
        return _lower_structured(mask)
    if mask is causal or isinstance(mask, str):
        raise TypeError(
            f"mask must be an array or a mask, got {mask!r}: did you mean headwise.causal()?"
        )
    array = to_numpy("mask", mask)
    if array.ndim < 1:
        raise ValueError(f"mask must have at least 1 dimension (kv_len), got the number {array}")
    if array.dtype.kind == "f":
        return Lowered(additive=_additive_mask(array))
    return Lowered(boolean=boolean_mask(array))


def _lower_structured(mask: Mask) -> Lowered:
    if isinstance(mask, Causal):
        return Lowered(band=Band(right=0))
    if isinstance(mask, Dense):
        lowered = lower(mask.array)
        if lowered.additive is not None:
            raise TypeError(
                "a mask combined with & must be boolean, got a float array: pass that one as bias="
            )
        return lowered
    if isinstance(mask, Both):
        one, other = lower(mask.one), lower(mask.other)
        arrays = [m.boolean for m in (one, other) if m.boolean is not None]
        return Lowered(one.band & other.band, _all_of(arrays))
    raise TypeError(f"mask must be an array or made by headwise.causal, got {type(mask).__name__}")


def _all_of(arrays: list[NDArray[np.bool_]]) -> NDArray[np.bool_] | None:
    if len(arrays) < 2:
        return arrays[0] if arrays else None
    try:
        return np.logical_and(*arrays)
    except ValueError:
        raise ValueError(
            "boolean masks combined with & must broadcast, got shapes "
            f"{shape_text(arrays[0].shape)} and {shape_text(arrays[1].shape)}"
        ) from None


def boolean_mask(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a boolean array, or one of 0 and 1 as tokenizers give them, as booleans."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"mask must be boolean, of whole numbers 0 and 1, or floating point (added to the "
            f"scores), got dtype {array.dtype}"
        )
    distinct = without_repeats(array)
    if distinct.size and (distinct.min() < 0 or distinct.max() > 1):
        wrong = distinct[(distinct != 0) & (distinct != 1)].flat[0]
        raise ValueError(
            f"a mask of whole numbers may hold 0 (masked) and 1 (may attend) only, got {wrong}: "
            "pass a boolean array, or a float array to add to the scores"
        )
    return np.broadcast_to(distinct.astype(np.bool_), array.shape)


def without_repeats(array: NDArray[Any]) -> NDArray[Any]:
    """Cut axes that broadcasting made (stride 0) back to one element."""
    cut = (slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)
    return array[tuple(cut)]


def _additive_mask(array: NDArray[Any]) -> NDArray[Any]:
    """Return a float mask, unless it looks like a boolean one in floats."""
    if array.dtype.itemsize not in {4, 8}:
        names = listing(("float32", "float64"))
        raise TypeError(f"mask has dtype {array.dtype}, expected bool, {names}: convert it first")
    if only_zeros_and_ones(array):
        raise ValueError(
            "mask is a float array of 0.0 and 1.0 only, and a float mask is added to the scores: "
            "if 1 means may attend pass mask != 0; to add these numbers pass them as bias="
        )
    return array


def only_zeros_and_ones(array: NDArray[Any]) -> bool:
    """Tell whether ``array`` holds 0.0 and 1.0, both, and nothing else; mostly at first sight."""
    zeros = ones = False
    runs: Any = np.nditer(
        without_repeats(array), ("external_loop", "buffered", "zerosize_ok"), buffersize=1 << 14
    )
    for run in runs:
        is_zero, is_one = run == 0, run == 1
        if not (is_zero | is_one).all():
            return False
        zeros, ones = zeros or bool(is_zero.any()), ones or bool(is_one.any())
    return zeros and ones
