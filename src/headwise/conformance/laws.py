"""Laws that tie several calls together: each returns how it is broken, or nothing."""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from headwise.conformance.cases import Array, Call, Case, NotOfferedError
from headwise.conformance.judge import agree
from headwise.conformance.outcome import as_numpy

Run = Callable[[Call], Any]
MIB = 1 << 20
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def items_alone(run: Run, case: Case) -> str:
    """Check that one batch item has the same bits alone as inside the batch."""
    call = case.call()
    whole = _array(run(call))
    for item in range(len(whole)):
        inputs = {name: x[item : item + 1].copy() for name, x in call.inputs.items()}
        alone = _array(run(replace(call, inputs=inputs)))
        if alone.tobytes() != whole[item : item + 1].tobytes():
            return f"item {item} alone gives other bits than inside the batch"
    return ""


def threads(run: Run, case: Case) -> str:
    """Check that the result has the same bits with 1, 2 and 3 threads."""
    results = []
    for n in (1, 2, 3):
        call = case.call()
        results.append(_array(run(replace(call, options={**call.options, "num_threads": n}))))
    differ = [n for n, result in zip((2, 3), results[1:], strict=True) if _bits(result, results[0])]
    return f"{differ[0]} threads give other bits than one" if differ else ""


def observed(run: Run, case: Case) -> str:
    """Check that the result has the same bits where statistics are asked for, too."""
    call = case.call()
    plain = _array(run(call))
    seen = _array(run(replace(call, options={**call.options, "statistics": True})))
    return "another result where statistics are asked for" if _bits(plain, seen) else ""


def heads_not_repeated(run: Run, case: Case) -> str:
    """Check by memory that grouped keys and values are not copied for every query head."""
    most = case.options["most_mib"]
    call = replace(case.call(), options={})
    _array(run(call))  # whatever is made once
    before = _reset_peak()
    _array(run(call))
    extra = (_peak() - before) / MIB
    if extra <= most:
        return ""
    return f"took {extra:.0f} MiB, as if keys and values were repeated for every head"


def causal_keeps_values(run: Run, case: Case) -> str:
    """Check that the first rows under a causal mask do not change with what follows."""
    call = case.call()
    whole = _array(run(call))
    half = whole.shape[-2] // 2
    inputs = {name: x[..., :half, :].copy() for name, x in call.inputs.items()}
    start = _array(run(replace(call, inputs=inputs)))
    same = agree(start, whole[..., :half, :], case.tolerance).all()
    return "" if same else "the first rows change with what follows them"


def _array(result: Any) -> Array:
    array = as_numpy(result)
    if array is None:
        raise TypeError(f"expected an array, got {type(result).__name__}")
    return array


def _bits(one: Array, other: Array) -> bool:
    return (one.shape, one.tobytes()) != (other.shape, other.tobytes())


def _reset_peak() -> int:
    """Forget the highest memory so far; the memory in use, in bytes.

    What the allocator keeps is given back first: to take that again would go unnoticed.
    """
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    try:
        _RESET.write_text("5")
        return _memory("VmRSS")
    except OSError:
        raise NotOfferedError("peak memory cannot be measured on this system") from None


def _peak() -> int:
    return max(_memory("VmHWM"), 0) or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _memory(name: str) -> int:
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


LAWS: dict[str, Callable[[Run, Case], str]] = {
    "items alone": items_alone,
    "threads": threads,
    "observed": observed,
    "heads not repeated": heads_not_repeated,
    "a prefix is not changed": causal_keeps_values,
}
