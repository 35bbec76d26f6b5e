"""The cases: what is asked of an implementation, as data. ``cases.json`` holds them.

A case names a function, its inputs and options, and what must come: an array, a refusal, or a law
that ties several calls together. ``scripts/make_cases.py`` makes the file from the float64 oracle
and from values known by hand.
"""

from __future__ import annotations

import fnmatch
import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from headwise import masks

Array: TypeAlias = Any
PATH = Path(__file__).with_name("cases.json")
FUNCTIONS = (
    "split_heads",
    "scaled_dot_product_attention",
    "multi_head_attention_per_head",
    "combine_heads",
)
LEVELS = ("core", "robust")
INPUTS = {
    "split_heads": ("x", "num_heads"),
    "scaled_dot_product_attention": ("query", "key", "value"),
    "multi_head_attention_per_head": ("query", "key", "value", "num_heads"),
    "combine_heads": ("x",),
}


class NotOfferedError(Exception):
    """The implementation takes no such option; the text says which."""


@dataclass(frozen=True)
class Call:
    """A case's call with its arrays made: ``inputs`` go by position, ``options`` by name."""

    function: str
    inputs: dict[str, Any]
    options: dict[str, Any]

    def arrays(self) -> dict[str, Array]:
        """Return all arrays among inputs and options, by name."""
        both = {**self.inputs, **self.options}
        return {name: x for name, x in both.items() if isinstance(x, np.ndarray)}

    def copy(self) -> Call:
        """Return the same call with arrays of its own."""
        inputs = {n: x.copy() if isinstance(x, np.ndarray) else x for n, x in self.inputs.items()}
        options = {n: x.copy() if isinstance(x, np.ndarray) else x for n, x in self.options.items()}
        return Call(self.function, inputs, options)


@dataclass(frozen=True)
class Case:
    """One thing asked of one function.

    ``level`` is "core" where a correct textbook solution passes, "robust" where such solutions and
    libraries are known to break. ``expected`` is an array, ``{"raises": [...]}`` or
    ``{"law": name}``. ``also`` names what is watched beside the result.
    """

    name: str
    asks: str
    level: str
    function: str
    inputs: dict[str, Any]
    options: dict[str, Any]
    expected: dict[str, Any]
    tolerance: dict[str, float]
    source: str
    also: list[str] = field(default_factory=list)
    may_refuse: bool = False  # an error means that this is not offered

    @property
    def group(self) -> str:
        """What the case belongs to: the first part of its name."""
        return self.name.split("/")[0]

    @property
    def size(self) -> int:
        """How many numbers the inputs hold."""
        specs = (*self.inputs.values(), *self.options.values())
        return sum(int(np.prod(s["shape"])) for s in specs if is_array(s))

    def call(self) -> Call:
        """Make fresh arrays for a call."""
        inputs = {name: decode(spec) for name, spec in self.inputs.items()}
        options = {name: decode(spec) for name, spec in self.options.items()}
        return Call(self.function, inputs, options)

    def expected_array(self) -> Array | None:
        """Return the array that must come, or None where the case asks for something else."""
        return decode(self.expected) if is_array(self.expected) else None


@cache
def _file() -> dict[str, Any]:
    return json.loads(PATH.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def groups() -> dict[str, str]:
    """Return the groups of cases, in order, with their titles.

    Examples
    --------
    >>> from headwise import conformance
    >>> conformance.groups()["split"]
    'splitting heads'
    """
    return dict(_file()["groups"])


def load_cases() -> list[Case]:
    """Return all cases, in the file's order.

    Examples
    --------
    >>> from headwise import conformance
    >>> case = conformance.load_cases()[0]
    >>> case.name, case.level, case.function
    ('split/two-heads', 'core', 'split_heads')
    >>> case.call().inputs["x"].shape, case.expected_array().shape
    ((1, 1, 4), (1, 2, 1, 2))
    """
    return [Case(**case) for case in _file()["cases"]]


def select(cases: Sequence[Case], patterns: Sequence[str], core: bool = False) -> list[Case]:
    """Return the cases whose group or name fits one of the patterns, all where there is none."""
    chosen = [
        case
        for case in cases
        if not patterns or any(_fits(case.name, pattern) for pattern in patterns)
    ]
    return [case for case in chosen if case.level == "core" or not core]


def _fits(name: str, pattern: str) -> bool:
    group, short = name.split("/")
    return any(fnmatch.fnmatchcase(text, pattern) for text in (name, group, short))


def is_array(spec: Any) -> bool:
    """Tell whether a value in the file describes an array."""
    return isinstance(spec, dict) and "shape" in spec


def decode(spec: Any) -> Any:
    """Make what a value in the file describes: an array, a mask, or the value itself."""
    if not isinstance(spec, dict):
        return spec
    return _array(spec) if is_array(spec) else _mask(spec)


def _array(spec: dict[str, Any]) -> Any:
    dtype, shape = dtype_of(spec["dtype"]), tuple(spec["shape"])
    if "band" in spec:  # 0 at distances low to high of the key from the query, -inf elsewhere
        low, high = spec["band"]
        ahead = np.arange(shape[-1]) - np.arange(shape[-2])[:, None]
        numbers = np.where((ahead >= low) & (ahead <= high), 0.0, -np.inf)
    else:
        numbers = _filled([float(x) for x in spec["data"]], shape, spec.get("fill"))
    return _lay(numbers.astype(dtype).reshape(shape), spec.get("layout"))


def _filled(numbers: list[float], shape: tuple[int, ...], fill: str | None) -> Array:
    """Give the numbers as they are, again and again, or with the last one repeated."""
    size = int(np.prod(shape))
    if fill == "again":
        return np.resize(numbers, size)
    if fill == "last":
        numbers = numbers + numbers[-1:] * (size - len(numbers))
    return np.array(numbers, dtype=np.float64)


def _lay(array: Array, layout: str | None) -> Any:
    """Lay the same numbers out in memory in another way, or give them as lists."""
    if layout == "list":
        return array.tolist()
    if layout == "read-only":
        array.flags.writeable = False
    if layout == "reversed":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    if layout == "transposed":
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "swapped":  # the other byte order
        return array.astype(array.dtype.newbyteorder())
    return array


def dtype_of(name: str) -> Any:
    """Return the dtype of a name; bfloat16 is that of ml_dtypes."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        ml_dtypes: Any = importlib.import_module("ml_dtypes")
    except ImportError:
        raise NotOfferedError("bfloat16 in NumPy needs ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def _mask(spec: dict[str, Any]) -> Any:
    ((kind, arguments),) = spec.items()
    if kind == "all":
        first, *rest = (decode(part) for part in arguments)
        for mask in rest:
            first = first & mask
        return first
    return getattr(masks, kind)(**arguments)


def encode(array: Array, *, digits: int | None = None, **more: Any) -> dict[str, Any]:
    """Describe an array as the file does; floats are rounded to so many significant digits."""
    numbers = [_number(x, digits) for x in np.asarray(array).astype(np.float64).ravel()]
    data = {"dtype": str(array.dtype), "shape": list(array.shape), "data": numbers}
    return {**data, **more}


def _number(x: float, digits: int | None) -> float | int | str:
    if not np.isfinite(x):
        return str(float(x))
    number = float(x) if digits is None else float(f"{x:.{digits}g}")
    return int(number) if number == int(number) and abs(number) < 1e15 else number
