"""What the tests share: inputs of every temper, forced instruction sets, and the error allowed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import _binding, reference

INSTRUCTION_SETS = tuple(_binding.instruction_sets())
DTYPES = ("float32", "float64")
KINDS = ("plain", "large", "peaky", "tied", "tiny", "denormal")
# From so many rows of a key/value head on, the other kernel takes over, and up to so many it
# splits their keys.
FEW_ROWS, SPLIT_ROWS = _binding.FEW_ROWS, _binding.SPLIT_ROWS
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


class Errors:
    """Errors of one kind of number over many draws: mean and largest, and the numbers' size."""

    def __init__(self) -> None:
        self.total = self.most = self.size = 0.0
        self.count = 0

    def add(self, got: Array, true: Array) -> None:
        with np.errstate(invalid="ignore"):
            errors = np.where(got == true, 0, abs(got - true)).astype(np.float64)  # inf is inf
        self.total += float(errors.sum())
        self.most = float(np.maximum(self.most, np.max(errors, initial=0)))  # keeps NaN
        self.size = max(self.size, float(np.max(abs(true[np.isfinite(true)]), initial=0)))
        self.count += errors.size

    @property
    def mean(self) -> float:
        return self.total / max(self.count, 1)


class Pool:
    """The errors of a case over many draws: the kernels' and plain NumPy's in the same precision.

    The error of one number is a matter of luck, of the order in which both add up and of NumPy's
    own kernels, so means are compared, and the largest errors with more room. Where scores are
    large, outputs hang on ties that a rounding decides: there only log-sum-exps are compared.
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.wider = np.float64 if self.dtype == np.float32 else np.longdouble
        names = ("plain", *INSTRUCTION_SETS)
        self.outputs = {name: Errors() for name in names}
        self.logs = {name: Errors() for name in names}

    def add(self, inputs: Inputs, **options: Any) -> None:
        """Solve one call with every instruction set, and in full."""
        true = reference.attention(*inputs, dtype=self.wider, **options)
        self._add("plain", reference.attention(*inputs, dtype=self.dtype, **options), true)
        for name in INSTRUCTION_SETS:
            with forced(name):
                self._add(name, headwise.observe(*inputs, statistics=(), **options), true)

    def _add(self, name: str, got: Any, true: reference.Reference) -> None:
        self.outputs[name].add(got.output, true.output)
        self.logs[name].add(got.lse, true.lse)

    def check(self, *, outputs: bool = True) -> None:
        for kind in (self.logs, self.outputs) if outputs else (self.logs,):
            plain = kind["plain"]
            means = {name: errors.mean for name, errors in kind.items()}
            bound = allowed(plain.mean, plain.size, self.dtype)
            assert all(mean <= bound for mean in means.values()), (means, bound)
            most = {name: errors.most for name, errors in kind.items()}
            bound = 2 * allowed(plain.most, plain.size, self.dtype)
            assert all(largest <= bound for largest in most.values()), (most, bound)


def error(got: Array, true: Array) -> float:
    """Return the largest error; NaN, which is below no bound, where there is one."""
    return float(np.max(abs(got.astype(true.dtype) - true), initial=0))


def allowed(plain_error: float, size: float, dtype: Any) -> float:
    """Return twice the error of the plain computation and two units in the last place."""
    return 2 * plain_error + 2 * max(ulp(dtype) * size, float(np.finfo(dtype).smallest_subnormal))


def ulp(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


@contextmanager
def refuses(kind: type[Exception] | tuple[type[Exception], ...], *words: str) -> Iterator[None]:
    """Expect an error whose text holds all the words."""
    with pytest.raises(kind) as caught:
        yield
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


def same_bits(one: Array, other: Array) -> bool:
    """Tell whether two arrays are the same to the bit, NaN and the sign of 0 included."""
    one, other = np.ascontiguousarray(one), np.ascontiguousarray(other)
    return (one.shape, one.dtype) == (other.shape, other.dtype) and one.tobytes() == other.tobytes()


def check_statistics(
    seen: headwise.Observation, true: reference.Reference, first: int = 1, *, ties: bool = True
) -> None:
    """Compare lse and all observed statistics with the oracle's.

    ``ties``: equal scores must be equal to the kernels, too. Not so where the roundings of a cap or
    a bias may tell them apart.
    """
    close = (
        {"rtol": 1e-12, "atol": 1e-12}
        if seen.lse.dtype == np.float64
        else {"rtol": 1e-5, "atol": 2e-5}
    )
    np.testing.assert_allclose(seen.lse, true.lse, err_msg="lse", **close)
    for name in seen.statistics:
        want = true.first_weights(first) if name == "first_weight" else getattr(true, name)
        got = getattr(seen, name)
        assert got.shape == seen.lse.shape, name
        if name == "argmax":
            check_argmax(got, true, close["atol"], ties=ties)
        else:
            np.testing.assert_allclose(got, want, err_msg=name, **close)


def check_argmax(got: Array, true: reference.Reference, slack: float, *, ties: bool) -> None:
    """Check that a key of the largest weight was found: the first one, but for rounding."""
    empty = ~true.visible.any(axis=-1)
    assert np.array_equal(got == -1, empty)
    if true.weights.shape[-1]:
        key = np.maximum(got, 0)[..., None]
        weight, score = (
            np.take_along_axis(x, key, axis=-1)[..., 0] for x in (true.weights, true.scores)
        )
        assert np.all(weight >= true.max_weight - slack)
        tied = ~empty & (score == true.scores.max(axis=-1)) & ties
        assert np.array_equal(got[tied], true.argmax[tied])


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
