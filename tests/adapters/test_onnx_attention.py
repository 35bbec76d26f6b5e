"""ONNX's ``Attention`` beyond its node tests, against the float64 oracle and masks made by hand."""

from __future__ import annotations

import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import headwise
from headwise import reference
from headwise.adapters.onnx import attention
from tests.support import Array, draw, normal, same_bits

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def shown(
    lengths: tuple[int, int], offset: Any = 0, left: int = -1, right: int = -1, real: Any = None
) -> Array:
    """Return who may attend, (batch or 1, 1, query_len, total_len), written out key by key."""
    offsets = np.atleast_1d(offset)
    reals = np.atleast_1d(lengths[1] if real is None else real)
    out = np.zeros((max(len(offsets), len(reals)), 1, *lengths), bool)
    for item, _, i, j in np.ndindex(out.shape):
        at = i + offsets[item % len(offsets)]
        sees = j < reals[item % len(reals)]
        sees &= left < 0 or j >= at - left
        out[item, 0, i, j] = sees and (right < 0 or j <= at + right)
    return out


def side_by_side(x: Array) -> Array:
    return headwise.combine_heads(x)


@pytest.mark.parametrize("lengths", [(3, 7), (20, 23)], ids=["few", "many"])
@pytest.mark.parametrize("flat", [False, True])
def test_causal_windows_with_a_cache(
    rng: np.random.Generator, lengths: tuple[int, int], flat: bool
) -> None:
    q, k, v = draw(rng, (2, 6), lengths, (8, 5), kv_heads=2)
    past_k, past_v = normal(rng, 2, 2, 4, 8), normal(rng, 2, 2, 4, 5)
    keys, values = (np.concatenate(x, axis=2) for x in ((past_k, k), (past_v, v)))
    for left, right, is_causal in ((-1, -1, 1), (2, -1, 1), (3, 1, 0), (-1, 2, 0), (0, 0, 0)):
        inputs = [side_by_side(x) for x in (q, k, v)] if flat else [q, k, v]
        got = attention(
            *inputs, None, past_k, past_v, is_causal=is_causal, left_window_size=left,
            right_window_size=right, **({"q_num_heads": 6, "kv_num_heads": 2} if flat else {})
        )  # fmt: skip
        mask = shown((lengths[0], lengths[1] + 4), 4, left, 0 if is_causal else right)
        want = reference.attention(q, keys, values, mask).output
        np.testing.assert_allclose(got.Y, side_by_side(want) if flat else want, **CLOSE)
        assert same_bits(got.present_key, keys)
        assert same_bits(got.present_value, values)
        assert got.qk_matmul_output is None


@pytest.mark.parametrize("lengths", [(3, 7), (20, 23)], ids=["few", "many"])
@pytest.mark.parametrize("mode", [None, 3])
def test_an_outer_cache(rng: np.random.Generator, lengths: tuple[int, int], mode: Any) -> None:
    q, k, v = draw(rng, (3, 2), lengths)
    real = np.array([lengths[1], 2, 0])
    for left, is_causal in ((-1, 0), (-1, 1), (1, 1), (2, 0)):
        got = attention(
            q, k, v, nonpad_kv_seqlen=real, is_causal=is_causal, left_window_size=left,
            qk_matmul_output_mode=mode,
        )  # fmt: skip
        offset = real - lengths[0]  # below 0 where queries come before the first key
        mask = shown(lengths, offset, left, 0 if is_causal else -1, real)
        want = reference.attention(q, k, v, mask)
        np.testing.assert_allclose(got.Y, want.output, **CLOSE)
        assert not got.Y[2].any()
        if mode == 3:
            np.testing.assert_allclose(got.qk_matmul_output, want.weights, **CLOSE)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_matrices_of_every_mode(rng: np.random.Generator, mode: int, kind: str) -> None:
    q, k, v = draw(rng, (2, 4), (5, 6), kv_heads=2)
    mask: Array = rng.random((2, 1, 5, 6)) < 0.6
    mask[1, 0, 2] = False
    bias = np.where(mask, rng.normal(size=mask.shape), -np.inf)
    given = mask if kind == "bool" else bias
    got = attention(q, k, v, given, softcap=0.5, scale=-0.7, qk_matmul_output_mode=mode)
    scores = -0.7 * q @ np.repeat(k, 2, axis=1).swapaxes(-1, -2)
    capped = 0.5 * np.tanh(scores / 0.5)
    added = np.where(mask, capped, -np.inf) if kind == "bool" else capped + bias
    seen = reference.attention(q, k, v, given, softcap=0.5, scale=-0.7)
    np.testing.assert_allclose(
        got.qk_matmul_output, (scores, capped, added, seen.weights)[mode], **CLOSE
    )
    np.testing.assert_allclose(got.Y, seen.output, **CLOSE)
    assert not got.Y[1, :, 2].any()


@pytest.mark.parametrize("opset", [24, 25])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_a_mask_shorter_than_the_keys_hides_the_rest(
    rng: np.random.Generator, opset: int, kind: str
) -> None:
    q, k, v = draw(rng, (2, 2), (3, 8))
    for covered in (5, 1, 0):
        mask: Array = rng.random((3, covered)) < 0.7
        given = mask if kind == "bool" else np.where(mask, 0.25, -np.inf)
        whole = np.zeros((3, 8), bool)
        whole[:, :covered] = mask
        for mode, fill in ((2, -np.inf), (3, 0)):
            got = attention(q, k, v, given, opset=opset, qk_matmul_output_mode=mode)
            want = reference.attention(q, k, v, whole)
            np.testing.assert_allclose(got.Y, want.output, **CLOSE)
            hidden = np.broadcast_to(~whole, (2, 2, 3, 8))
            assert np.array_equal(got.qk_matmul_output == fill, hidden)


def test_before_opset_24_a_mask_of_one_column_holds_for_all_keys(rng: np.random.Generator) -> None:
    q, k, v = draw(rng, (2, 2), (3, 8))
    rows = np.array([[True], [False], [True]])
    got = attention(q, k, v, rows, opset=23, qk_matmul_output_mode=3)
    want = reference.attention(q, k, v, np.broadcast_to(rows, (3, 8)))
    np.testing.assert_allclose(got.Y, want.output, **CLOSE)
    np.testing.assert_allclose(got.qk_matmul_output, want.weights, **CLOSE)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("mode", [None, 0, 1, 2, 3])
def test_short_floats(rng: np.random.Generator, dtype: Any, mode: int | None) -> None:
    q, k, v = (x.astype(dtype) for x in draw(rng, (2, 4), (5, 9), (8, 6), kv_heads=2))
    bias = normal(rng, 5, 9).astype(dtype)
    got = attention(q, k, v, bias, softcap=2.0, qk_matmul_output_mode=mode)
    want = reference.attention(q, k, v, bias, softcap=2.0)
    tolerance = {"rtol": float(ml_dtypes.finfo(dtype).eps), "atol": 1e-6}
    assert got.Y.dtype == q.dtype
    np.testing.assert_allclose(got.Y.astype(float), want.output, **tolerance)
    if mode in {2, 3}:
        exact = want.scores if mode == 2 else want.weights
        assert got.qk_matmul_output.dtype == q.dtype
        np.testing.assert_allclose(got.qk_matmul_output.astype(float), exact, **tolerance)


def test_float16_scores_do_not_overflow() -> None:
    x = np.full((1, 1, 3, 80), 256, np.float16)
    got = attention(x, x, x, is_causal=1, qk_matmul_output_mode=3)
    assert (got.Y == 256).all()
    np.testing.assert_allclose(
        got.qk_matmul_output[0, 0], np.tril(np.ones((3, 3)) / [[1], [2], [3]]), rtol=1e-3
    )
    raw = attention(x, x, x, qk_matmul_output_mode=0).qk_matmul_output
    assert np.isposinf(raw).all()  # 256 · 256 · √80 is beyond float16


@pytest.mark.parametrize("how", ["bool", "float", "causal", "nonpad", "window"])
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e38])
def test_what_is_hidden_does_not_show(rng: np.random.Generator, how: str, poison: float) -> None:
    q, k, v = draw(rng, (1, 2), (4, 6), dtype=np.float32)
    options: dict[str, Any] = {
        "bool": {"attn_mask": np.arange(6) < 4},
        "float": {"attn_mask": np.where(np.arange(6) < 4, 0.5, -np.inf).astype(np.float32)},
        "causal": {"is_causal": 1},
        "nonpad": {"nonpad_kv_seqlen": [4]},
        "window": {"right_window_size": 0},
    }[how]
    clean = [attention(q, k, v, **options, qk_matmul_output_mode=m) for m in (2, 3)]
    k[:, :, 4:], v[:, :, 4:] = poison, poison
    for mode, want in zip((2, 3), clean, strict=True):
        got = attention(q, k, v, **options, qk_matmul_output_mode=mode)
        assert same_bits(got.Y, want.Y)
        assert same_bits(got.qk_matmul_output, want.qk_matmul_output)


def test_no_keys_and_no_queries(rng: np.random.Generator) -> None:
    q, k, v = draw(rng, (2, 2), (3, 0), (8, 5))
    for mode in (None, 0, 1, 2, 3):
        got = attention(q, k, v, is_causal=1, qk_matmul_output_mode=mode)
        assert got.Y.shape == (2, 2, 3, 5)
        assert not got.Y.any()
    past = normal(rng, 2, 2, 4, 8)
    got = attention(q, k, k, None, past, past)
    np.testing.assert_allclose(got.Y, reference.attention(q, past, past).output, **CLOSE)
    assert attention(q[:, :, :0], past, past).Y.shape == (2, 2, 0, 8)


def test_precision_is_at_least_what_is_asked_for(rng: np.random.Generator) -> None:
    q, k, v = draw(rng, (2, 2), (4, 30), kind="large", dtype=np.float32)
    plain = attention(q, k, v)
    for lower in (1, 10, 16):
        assert same_bits(attention(q, k, v, softmax_precision=lower).Y, plain.Y)
    double = attention(q, k, v, softmax_precision=11, qk_matmul_output_mode=3)
    want = reference.attention(q, k, v)
    assert double.Y.dtype == double.qk_matmul_output.dtype == np.float32
    np.testing.assert_array_equal(double.Y, want.output.astype(np.float32))
    np.testing.assert_allclose(double.qk_matmul_output, want.weights, rtol=1e-7, atol=1e-40)
    assert not same_bits(double.Y, plain.Y)


@pytest.mark.parametrize("first", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("second", ["float16", "bfloat16", "float32", "float64"])
def test_values_may_have_another_dtype(rng: np.random.Generator, first: str, second: str) -> None:
    one, other = (ml_dtypes.bfloat16 if n == "bfloat16" else np.dtype(n) for n in (first, second))
    q, k, v = draw(rng, (2, 4), (3, 5), kv_heads=2)
    q, k, v = q.astype(one), k.astype(one), v.astype(other)
    got = attention(q, k, v, None, k, v, is_causal=1)
    wide = [x.astype(np.float64) for x in (q, k, v)]
    want = attention(*wide, None, *wide[1:], is_causal=1)
    assert [x.dtype for x in got[:3]] == [q.dtype, k.dtype, v.dtype]
    working = np.float64 if "float64" in {first, second} else np.float32
    unit = max(float(ml_dtypes.finfo(one).eps), 4 * float(np.finfo(working).eps))
    np.testing.assert_allclose(got.Y.astype(float), want.Y, rtol=unit, atol=unit)


def test_tensors_come_back_as_such(rng: np.random.Generator) -> None:
    arrays = draw(rng, (2, 2), (3, 5), dtype=np.float32)
    got = attention(*map(torch.from_numpy, arrays), is_causal=1, qk_matmul_output_mode=3)
    want = attention(*arrays, is_causal=1, qk_matmul_output_mode=3)
    for ours, theirs in zip(got, want, strict=True):
        assert isinstance(ours, torch.Tensor)
        assert same_bits(ours.numpy(), theirs)


@pytest.mark.parametrize(
    ("past_len", "options"),
    [
        (0, {"is_causal": 1}),
        (9, {"is_causal": 1, "left_window_size": 8}),
        (9, {"left_window_size": 8, "right_window_size": 8}),
        (None, {"is_causal": 1, "nonpad_kv_seqlen": [4000]}),
    ],
)
def test_structured_masks_are_never_made_dense(past_len: Any, options: dict[str, Any]) -> None:
    n = 4096
    x = np.zeros((1, 1, n, 4), np.float32)
    past = None if past_len is None else x[:, :, :past_len]
    tracemalloc.start()
    try:
        attention(x, x, x, None, past, past, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < n * n / 16  # bytes: half a bit for each query and key
