"""Masks as arrays: booleans, zeros and ones, and floats to add; the rest is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from headwise._arrays import widen

if TYPE_CHECKING:
    from numpy.typing import NDArray


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


def additive_mask(array: NDArray[Any]) -> NDArray[Any]:
    """Return a float mask, unless it looks like a boolean one in floats."""
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
    for raw in runs:
        run = widen(raw)
        is_zero, is_one = run == 0, run == 1
        if not (is_zero | is_one).all():
            return False
        zeros, ones = zeros or bool(is_zero.any()), ones or bool(is_one.any())
    return zeros and ones
