"""Any combination of shapes, dtypes, masks, biases and options, against the oracle.

``HEADWISE_EXAMPLES`` sets how many combinations are drawn; ``make nightly`` draws 20,000.
"""

from __future__ import annotations

import os
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import headwise
from headwise import reference
from tests.option_space import calls
from tests.support import (
    INSTRUCTION_SETS,
    Inputs,
    allowed,
    check_statistics,
    error,
    forced,
    same_bits,
    ulp,
)

EXAMPLES = int(os.environ.get("HEADWISE_EXAMPLES", "1000"))


def bound(inputs: Inputs, options: dict[str, Any], true: Any) -> float:
    """Return the error allowed: in one draw it is a matter of luck, so a little more than twice."""
    dtype = inputs[0].dtype
    working = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    plain = reference.attention(*inputs, dtype=working, **options).output
    size = float(np.max(abs(inputs[2].astype(np.float64)), initial=0))
    rounding = size * float(ml_dtypes.finfo(dtype).eps) / 2 if dtype.itemsize == 2 else 0.0
    return allowed(error(plain, true), size, working) + 8 * ulp(working) * size + rounding


@settings(
    max_examples=EXAMPLES,
    derandomize=EXAMPLES <= 1000,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(calls(), st.sampled_from(INSTRUCTION_SETS), st.integers(1, 3))
def test_any_call_agrees_with_the_oracle(
    call: tuple[Inputs, dict[str, Any]], instruction_set: str, threads: int
) -> None:
    inputs, options = call
    note(f"shapes {[x.shape for x in inputs]}, dtypes {[str(x.dtype) for x in inputs]}")
    wider = np.longdouble if inputs[0].dtype == np.float64 else np.float64
    true = reference.attention(*inputs, dtype=wider, **options)
    with forced(instruction_set):
        output = headwise.scaled_dot_product_attention(*inputs, num_threads=threads, **options)
        seen = headwise.observe(*inputs, num_threads=threads, **options)
        weights = seen.weights()
    assert output.shape == true.output.shape
    assert output.dtype == inputs[0].dtype
    assert error(output, true.output) <= bound(inputs, options, true.output)
    assert same_bits(seen.output, output)
    rounded = {"bias", "softcap"} & set(options) or reference.is_additive(options.get("mask"))
    check_statistics(seen, true, ties=not rounded)
    close = 1e-12 if weights.dtype == np.float64 else 2e-5
    np.testing.assert_allclose(weights, np.broadcast_to(true.weights, weights.shape), atol=close)
    check_visible(options, true)


def check_visible(options: dict[str, Any], true: Any) -> None:
    """Ask a mask for some pairs, one by one: it shows what it shows everywhere."""
    mask = options.get("mask")
    offset = options.get("query_offset", 0)
    if not isinstance(mask, headwise.masks.Mask) or isinstance(offset, str):
        return
    query_len, kv_len = true.scores.shape[-2:]
    whole = mask.to_array(query_len, kv_len, offset)
    for i, j in ((0, 0), (query_len - 1, kv_len // 2), (query_len // 2, kv_len - 1)):
        if 0 <= i < query_len and 0 <= j < kv_len:
            seen = mask.visible(i, j, offset, query_len=query_len, kv_len=kv_len)
            assert seen is bool(whole[..., i, j].all())
