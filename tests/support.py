"""What the tests share: inputs of every temper, forced instruction sets, and the error allowed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import _binding, reference

INSTRUCTION_SETS = tuple(_binding.instruction_sets())
DTYPES = ("float32", "float64")
KINDS = ("plain", "large", "peaky", "tied", "tiny", "denormal")
FEW_ROWS = _binding.FEW_ROWS  # from so many rows of a key/value head on, the other kernel takes over
MANY, FEW = FEW_ROWS + 3, 3  # a number of queries for either kernel

Array = Any
Inputs = tuple[Array, Array, Array]


@contextmanager
def forced(instruction_set: str) -> Iterator[None]:
    """Have every call inside run on one instruction set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_binding, "instruction_set", lambda: instruction_set)
        yield


def normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float64) -> Array:
    return rng.normal(size=shape).astype(dtype)


def draw(
    rng: np.random.Generator,
    lead: Sequence[int] = (2, 2),
    lengths: tuple[int, int] = (5, 5),
    dims: tuple[int, int] = (8, 8),
    *,
    dtype: Any = np.float64,
    kind: str = "plain",
    kv_heads: int | None = None,
) -> Inputs:
    """Draw query, key and value: ``lead`` dimensions, (query, key) lengths, (head, value) dims."""
    kv_lead = (*lead[:-1], kv_heads) if kv_heads else tuple(lead)
    query = rng.normal(size=(*lead, lengths[0], dims[0]))
    key = rng.normal(size=(*kv_lead, lengths[1], dims[0]))
    value = rng.normal(size=(*kv_lead, lengths[1], dims[1]))
    if kind == "peaky" and lengths[1]:
        aims = rng.integers(lengths[1], size=lengths[0])
        query = 0.1 * query + 6 * reference.repeat_heads(key, query)[..., aims, :]
    factor = {"large": 30.0, "tiny": 1e-30, "denormal": np.finfo(dtype).tiny / 64}.get(kind, 1.0)
    whole = np.round if kind == "tied" else np.asarray
    query, key, value = (whole(x * factor).astype(dtype) for x in (query, key, value))
    return query, key, value


@dataclass(frozen=True)
class Problem:
    """A call, its true output and the error it may have."""

    inputs: Inputs
    options: dict[str, Any]
    true: Array
    bound: float

    @classmethod
    def make(cls, inputs: Inputs, **options: Any) -> Problem:
        dtype = inputs[0].dtype
        wider = np.float64 if dtype == np.float32 else np.longdouble
        true = reference.attention(*inputs, dtype=wider, **options).output
        plain = reference.attention(*inputs, dtype=dtype, **options).output
        return cls(inputs, options, true, allowed(plain, true, dtype))

    def check(self) -> None:
        """Solve it with every instruction set."""
        for name in INSTRUCTION_SETS:
            with forced(name):
                got = headwise.scaled_dot_product_attention(*self.inputs, **self.options)
            found = error(got, self.true)
            shapes = [x.shape for x in self.inputs]
            assert found <= self.bound, f"{name} {shapes}: {found:.3g} > {self.bound:.3g}"


def error(got: Array, true: Array) -> float:
    """Return the largest error; NaN, which passes no test, where NaNs differ."""
    return float(np.max(abs(got - true), initial=0))


def allowed(plain: Array, true: Array, dtype: Any) -> float:
    """Return twice the error of the plain computation, plus two units in the last place."""
    unit = np.finfo(dtype).eps * np.max(abs(true), initial=0)
    return 2 * error(plain, true) + 2 * float(max(unit, np.finfo(dtype).smallest_subnormal))


def run_script(script: str, *arguments: str, timeout: float = 60) -> str:
    """Run Python source in a process of its own; its output, once it has ended well."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
