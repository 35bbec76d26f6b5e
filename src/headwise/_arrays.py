"""Arrays in and out: what is taken as an array, in which precision, and how it goes back.

Sources: the DLPack protocol and the Python array API standard's ``from_dlpack`` and ``asarray``.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from headwise._errors import listing

Array: TypeAlias = NDArray[Any]

FLOATS = ("float32", "float64")
_CPU = 1  # DLPack's device type of host memory


def to_numpy(name: str, x: Any) -> Array:
    """View ``x`` as a NumPy array, without copying wherever its memory can be read as it is.

    Parameters
    ----------
    name
        The argument's name, for messages.
    x
        A NumPy array; an array of any library that speaks DLPack and lies in host memory; a number
        or nested lists of numbers.

    Raises
    ------
    TypeError
        For masked arrays, arrays on another device, and what is no array at all.
    """
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(
            f"{name} is a masked array, whose mask attention would lose: pass {name}.filled(0) "
            "and say with mask= which keys may be attended to"
        )
    if isinstance(x, np.ndarray):
        return np.asarray(x)
    if isinstance(x, bool | int | float | complex | list | tuple | np.generic):
        return _from_python(name, x)
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(name, x)
    raise TypeError(
        f"{name} must be a NumPy array, an array that speaks DLPack or nested lists of numbers, "
        f"got {type(x).__name__}"
    )


def _from_python(name: str, x: Any) -> Array:
    try:
        return np.asarray(x)
    except ValueError:
        raise ValueError(
            f"{name} must be a regular nested list; its rows have different lengths"
        ) from None


def _from_dlpack(name: str, x: Any) -> Array:
    if getattr(x, "requires_grad", False):
        raise TypeError(
            f"{name} is a tensor that requires a gradient, and headwise computes none: "
            f"pass {name}.detach()"
        )
    if not _in_host_memory(x):
        raise TypeError(
            f"{name} is an array on another device, and headwise computes on the CPU: move it "
            f"first, for example with {name}.cpu()"
        )
    try:
        return np.asarray(x.numpy()) if is_torch(x) else np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(
            f"{name} is a {type(x).__name__} of dtype {x.dtype} that NumPy cannot read ({error}): "
            f"convert it to dense {listing(FLOATS)} first"
        ) from None


def _in_host_memory(x: Any) -> bool:
    """Ask for the DLPack device; a tensor without memory has none."""
    try:
        return bool(x.__dlpack_device__()[0] == _CPU)
    except (BufferError, RuntimeError, ValueError):
        return False


def is_torch(x: Any) -> bool:
    """Tell whether ``x`` is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def to_operand(name: str, x: Any) -> Array:
    """View ``x`` as an array the kernels read: float32 or float64 in either byte order.

    Whole numbers and truth values become float64, as where NumPy divides them.

    Raises
    ------
    TypeError
        For every other dtype.
    """
    array = to_numpy(name, x)
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "f" and size in {4, 8}:
        return array
    if kind in "iub":
        return array.astype(np.float64)
    advice = f"{name}.float()" if is_torch(x) else f"{name}.astype(numpy.float32)"
    convertible = kind == "f" or size == 2
    raise TypeError(
        f"{name} has dtype {array.dtype}, expected {listing(FLOATS)} (or whole numbers)"
        + (f": pass {advice}" if convertible else "")
    )


def like(x: Any, array: Array) -> Any:
    """Give ``array`` the type of ``x``: the library that an argument came from."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return array
    if is_torch(x):
        return sys.modules["torch"].from_numpy(array)
    return x.__array_namespace__().asarray(array)
