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

FLOATS = ("float16", "bfloat16", "float32", "float64")
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])  # NumPy has no such number: its bits, by that name
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
        return x.view(BFLOAT16) if x.dtype.kind == "V" and _named_bfloat16(x) else np.asarray(x)
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
    if not hasattr(x, "__dlpack_device__"):  # JAX's stand-ins for arrays while it traces
        raise TypeError(
            f"{name} is a {type(x).__name__}, which holds no numbers yet: call headwise outside of "
            "jit, grad and vmap, or through jax.pure_callback"
        )
    if not _in_host_memory(x):
        raise TypeError(
            f"{name} is an array on another device, and headwise computes on the CPU: move it "
            f"first (PyTorch: {name}.cpu(), JAX: jax.device_get({name}), CuPy: {name}.get())"
        )
    try:
        if _named_bfloat16(x):
            return _from_bfloat16(x)
        return np.asarray(x.numpy()) if is_torch(x) else np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError) as error:
        raise TypeError(
            f"{name} is a {type(x).__name__} of dtype {x.dtype} that NumPy cannot read ({error}): "
            f"convert it to dense {listing(FLOATS)} first"
        ) from None


def _named_bfloat16(x: Any) -> bool:
    """Tell whether an array holds bfloat16: ml_dtypes' in NumPy, PyTorch's or JAX's."""
    return str(x.dtype).removeprefix("torch.") == "bfloat16"


def _from_bfloat16(x: Any) -> Array:
    if is_torch(x):
        return np.asarray(x.view(sys.modules["torch"].int16).numpy()).view(BFLOAT16)
    return np.asarray(x).view(BFLOAT16)


def widen(array: Array) -> Array:
    """Return bfloat16 numbers as float32 ones; other arrays as they are."""
    if array.dtype != BFLOAT16:
        return array
    bits = array.view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32)


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the precision that floats of a dtype are computed in: float64, else float32."""
    return np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)


def same_dtype(one: Array, other: Array) -> bool:
    """Tell whether two arrays hold the same numbers, in whatever byte order."""
    if one.dtype == other.dtype:
        return True
    return one.dtype.newbyteorder("=") == other.dtype.newbyteorder("=")


def to_working(array: Array) -> Array:
    """Return floats in the precision that is computed in: 16 bits become float32."""
    return widen(array).astype(np.float32) if array.dtype.itemsize == 2 else array


def rounded(array: Array, dtype: np.dtype[Any]) -> Array:
    """Round floats to a dtype, in this machine's byte order, bfloat16 included."""
    native = dtype.newbyteorder("=")
    if array.dtype == native:
        return array
    with np.errstate(over="ignore"):  # beyond the range is infinity, as everywhere
        return narrow(array) if native == BFLOAT16 else widen(array).astype(native)


def narrow(array: Array) -> Array:
    """Round floats to bfloat16: to the nearest, ties to even; NaN stays NaN."""
    numbers = np.ascontiguousarray(array, dtype=np.float32)
    bits = numbers.view(np.uint32)
    if array.dtype.itemsize > 4:  # a tie in float32 may be none before it was rounded to that
        off = np.where((bits & 0xFFFF) == 0x8000, abs(array) - abs(numbers.astype(array.dtype)), 0)
        bits = bits + (off > 0) - (off < 0)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = np.where(np.isnan(numbers), (bits >> 16) | 0x40, rounded)
    return rounded.astype(np.uint16).view(BFLOAT16)


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


def is_float(array: Array) -> bool:
    """Tell whether the kernels read an array's floats as they lie."""
    dtype = array.dtype
    return dtype.itemsize <= 8 if dtype.kind == "f" else dtype == BFLOAT16


def dtype_name(array: Array) -> str:
    """Return the name of an array's dtype, for messages."""
    return "bfloat16" if array.dtype == BFLOAT16 else str(array.dtype)


def to_operand(name: str, x: Any) -> Array:
    """View ``x`` as an array the kernels read: a float of 16, 32 or 64 bits in either byte order.

    Whole numbers and truth values become float64, as where NumPy divides them.

    Raises
    ------
    TypeError
        For every other dtype.
    """
    array = to_numpy(name, x)
    if is_float(array):
        return array
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    convertible = array.dtype.kind == "f" or array.dtype.name.startswith("float")
    raise TypeError(
        f"{name} has dtype {array.dtype}, expected {listing(FLOATS)} (or whole numbers)"
        + (f": pass {name}.astype(numpy.float32)" if convertible else "")
    )


def is_additive(array: Array) -> bool:
    """Tell whether an array holds floats of any kind, to be added to scores."""
    name = array.dtype.name  # ml_dtypes' floats of 8 bits and fewer are told by their names
    return is_float(array) or array.dtype.kind == "f" or name.startswith("float")


def to_additive(name: str, x: Any) -> Array:
    """View ``x`` as floats to add to scores; those that kernels don't read are converted.

    Raises
    ------
    TypeError
        For what is no array of floats.
    """
    array = to_numpy(name, x)
    if is_float(array):
        return array
    if array.dtype.kind == "f":
        return array.astype(np.float64)
    if array.dtype.name.startswith("float"):  # 8 bits and fewer, of ml_dtypes
        return array.astype(np.float32)
    advice = "pass it as mask=" if array.dtype.kind == "b" else "convert it first"
    raise TypeError(f"{name} has dtype {array.dtype}, expected floating point: {advice}")


def to_numbers(name: str, x: Any) -> Array:
    """Return a private float64 array of floats or whole numbers.

    Raises
    ------
    TypeError
        For every other dtype.
    """
    array = to_numpy(name, x)
    floats = array if array.dtype.kind in "iu" else widen(to_additive(name, array))
    return np.array(floats, dtype=np.float64, order="C")


def like(x: Any, array: Array) -> Any:
    """Give ``array`` the type of ``x``: the library that an argument came from."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack__"):
        return array.view(x.dtype) if array.dtype == BFLOAT16 else array
    if is_torch(x):
        torch = sys.modules["torch"]
        if array.dtype == BFLOAT16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
    if array.dtype == BFLOAT16:
        array = array.view(np.asarray(x).dtype)
    return x.__array_namespace__().asarray(array)
