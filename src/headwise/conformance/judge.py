"""Whether an outcome is what a case asks for, and if not, in what it differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from headwise.conformance.cases import Array, Case
from headwise.conformance.outcome import Outcome

WIDEST = 1e-4  # no mistake's results may lie further from the target's, whatever its slack
STATUSES = ("pass", "fail", "not offered", "not run")


@dataclass(frozen=True)
class Verdict:
    """A case's status and, in a few words, why."""

    status: str
    why: str = ""


def judge(case: Case, outcome: Outcome) -> Verdict:
    """Compare what came with what the case asks for."""
    if outcome.kind in {"not offered", "not run"}:
        return Verdict(outcome.kind, outcome.note)
    if outcome.kind in {"timed out", "crashed", "exited"}:
        return Verdict("fail", outcome.note)
    refused = outcome.kind in {"raised", "refused"}
    if refused and case.may_refuse:
        return Verdict("not offered", f"refuses it: {outcome.note}")
    if "raises" in case.expected:
        return _judge_refusal(case, outcome)
    why = outcome.note if refused or outcome.kind == "law" else _difference(case, outcome)
    return Verdict("fail" if why else "pass", why)


def _judge_refusal(case: Case, outcome: Outcome) -> Verdict:
    if outcome.kind == "refused":
        return Verdict("pass", outcome.note)
    wanted = " or ".join(case.expected["raises"])
    if outcome.kind == "raised":
        return Verdict("fail", f"raised {outcome.note}, expected {wanted}")
    return Verdict("fail", f"gave a result, expected {wanted}")


def _difference(case: Case, outcome: Outcome) -> str:
    """Say how a result differs from what is expected; nothing where it does not."""
    want = case.expected_array()
    assert want is not None
    if outcome.kind != "array":
        return f"{outcome.note}, expected an array"
    if outcome.shape != want.shape:
        return f"shape {outcome.shape}, expected {want.shape}"
    got = outcome.array
    assert got is not None
    wrong = ~agree(got, want, case.tolerance)
    if wrong.any():
        return _first_wrong(got, want, wrong)
    if "dtype" in case.also and got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    return _watched(case, outcome)


def _first_wrong(got: Array, want: Array, wrong: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    count = f"{int(wrong.sum())} of {wrong.size} numbers differ"
    return f"{count}, first at {list(at)}: {_text(got[at])}, expected {_text(want[at])}"


def _text(number: Any) -> str:
    return f"{float(number):.9g}" if number.dtype.kind in "fV" else str(number)


def _watched(case: Case, outcome: Outcome) -> str:
    """Say what was wrong beside the result."""
    if "unchanged" in case.also and outcome.changed:
        return f"changed its input {' and '.join(outcome.changed)} in place"
    if "view" in case.also and outcome.is_view is False:
        return "copied the array, expected a view of its memory"
    if "one call" in case.also and outcome.calls != 1:
        return f"called scaled_dot_product_attention {outcome.calls} times, expected one call"
    return ""


def agree(got: Array, want: Array, tolerance: dict[str, float]) -> Array:
    """Tell where two arrays of one shape agree; NaN agrees with NaN."""
    if got.dtype.kind == "c" or got.dtype.kind not in "biufV":
        return np.zeros(got.shape, dtype=bool)
    one, other = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = abs(one - other) <= tolerance["absolute"] + tolerance["relative"] * abs(other)
    near &= np.isfinite(other)
    return np.asarray(near | (one == other) | (np.isnan(one) & np.isnan(other)))


def alike(case: Case, one: Outcome, other: Outcome, slack: float) -> bool:
    """Tell whether two outcomes of a case are the same, errors of whatever text included."""
    errors = {"raised", "refused"}
    if one.kind in errors or other.kind in errors:
        return one.kind in errors and other.kind in errors and "raises" not in case.expected
    if (one.kind, one.shape, one.is_view) != (other.kind, other.shape, other.is_view):
        return False
    if one.array is None or other.array is None:
        return one.array is other.array and one.note == other.note
    if _watched(case, one) != _watched(case, other):
        return False
    if "dtype" in case.also and one.array.dtype != other.array.dtype:
        return False
    wide = {n: max(4 * t, min(slack * t, WIDEST)) for n, t in case.tolerance.items()}
    return bool(agree(one.array, other.array, wide).all())
