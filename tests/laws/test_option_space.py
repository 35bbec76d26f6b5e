"""Any combination of shapes and options, against the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import headwise
from headwise import causal, reference
from tests.support import (
    DTYPES,
    FEW_ROWS,
    INSTRUCTION_SETS,
    Inputs,
    allowed,
    check_statistics,
    error,
    forced,
    same_bits,
    ulp,
)

QUERY_LENGTHS = st.one_of(st.integers(0, 2 * FEW_ROWS), st.sampled_from([33, 64, 65]))
KV_LENGTHS = st.one_of(st.integers(0, 2 * FEW_ROWS), st.sampled_from([63, 64, 65, 256, 257, 520]))
DIMS = st.one_of(st.integers(0, 20), st.sampled_from([31, 32, 33, 65]))
MASKS = ["none", "boolean", "whole", "float", "causal", "causal and boolean"]


@st.composite
def calls(draw: Any) -> tuple[Inputs, dict[str, Any]]:
    """Draw the operands and options of a call."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rank = draw(st.sampled_from([2, 3, 4, 4, 4, 5]))
    lead = [draw(st.integers(1, 3)) for _ in range(max(rank - 3, 0))]
    kv_heads = [draw(st.integers(1, 3))] if rank > 2 else []
    heads = [n * (draw(st.integers(1, 3)) if rank > 3 else 1) for n in kv_heads]
    query_len, kv_len = draw(QUERY_LENGTHS), draw(KV_LENGTHS)
    head_dim, value_dim = draw(DIMS), draw(DIMS)
    dtype = draw(st.sampled_from(DTYPES))
    shapes = [
        (*lead, *heads, query_len, head_dim),
        (*lead, *kv_heads, kv_len, head_dim),
        (*lead, *kv_heads, kv_len, value_dim),
    ]
    query, key, value = (rng.normal(size=shape).astype(dtype) for shape in shapes)
    scores = (*lead, *heads, query_len, kv_len)
    options = draw_options(draw, rng, scores, tuple(lead))
    return (query, key, value), options


def draw_options(
    draw: Any, rng: np.random.Generator, scores: tuple[int, ...], outer: tuple[int, ...]
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    mask = draw_mask(draw, rng, scores)
    if mask is not None:
        options["mask"] = mask
    if draw(st.booleans()):
        options["bias"] = draw_bias(draw, rng, scores)
    if draw(st.booleans()):
        options["scale"] = draw(st.sampled_from([0, -0.2, 0.1, 1e-33]))
    offsets = [st.sampled_from(["upper_left", "lower_right"]), st.integers(-5, 30)]
    options["query_offset"] = draw(st.one_of(offsets))
    if outer and draw(st.booleans()):
        options["query_offset"] = rng.integers(-5, 30, size=outer)
    return options


def draw_mask(draw: Any, rng: np.random.Generator, scores: tuple[int, ...]) -> Any:
    kind = draw(st.sampled_from(MASKS))
    if kind in {"none", "causal"}:
        return causal() if kind == "causal" else None
    if kind == "float":
        return draw_bias(draw, rng, scores)
    boolean = rng.random(draw_shape(draw, scores)) < draw(st.sampled_from([0.0, 0.3, 0.9]))
    if kind == "whole":
        return boolean.astype(draw(st.sampled_from(["int64", "uint8"])))
    return boolean & causal() if kind == "causal and boolean" else boolean


def draw_bias(draw: Any, rng: np.random.Generator, scores: tuple[int, ...]) -> Any:
    bias = rng.normal(size=draw_shape(draw, scores)).astype(draw(st.sampled_from(DTYPES)))
    bias[rng.random(bias.shape) < 0.2] = -np.inf
    return bias


def draw_shape(draw: Any, scores: tuple[int, ...]) -> tuple[int, ...]:
    """Draw a shape that broadcasts to the scores'."""
    rank = draw(st.integers(2, len(scores)))
    return tuple(1 if draw(st.booleans()) else n for n in scores[len(scores) - rank :])


def bound(inputs: Inputs, options: dict[str, Any], true: Any) -> float:
    """Return the error allowed: in one draw it is a matter of luck, so a little more than twice."""
    dtype = inputs[0].dtype
    plain = reference.attention(*inputs, dtype=dtype, **options).output
    size = float(np.max(abs(inputs[2]), initial=0))
    return allowed(error(plain, true), size, dtype) + 8 * ulp(dtype) * size


@settings(
    max_examples=300,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(calls(), st.sampled_from(INSTRUCTION_SETS), st.integers(1, 3))
def test_any_call_agrees_with_the_oracle(
    call: tuple[Inputs, dict[str, Any]], instruction_set: str, threads: int
) -> None:
    inputs, options = call
    note(f"shapes {[x.shape for x in inputs]}")
    wider = np.float64 if inputs[0].dtype == np.float32 else np.longdouble
    true = reference.attention(*inputs, dtype=wider, **options)
    with forced(instruction_set):
        output = headwise.scaled_dot_product_attention(*inputs, num_threads=threads, **options)
        seen = headwise.observe(*inputs, num_threads=threads, **options)
        weights = seen.weights()
    assert output.shape == true.output.shape
    assert output.dtype == inputs[0].dtype
    assert error(output, true.output) <= bound(inputs, options, true.output)
    assert same_bits(seen.output, output)
    check_statistics(seen, true)
    np.testing.assert_allclose(weights, np.broadcast_to(true.weights, weights.shape), atol=2e-5)
