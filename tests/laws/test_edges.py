"""The table of edges in the contract, row by row, plain and observed, on every instruction set."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import headwise
from headwise import causal, documents, prefix, reference, scaled_dot_product_attention, window
from tests.support import draw, normal, same_bits, ulp

pytestmark = pytest.mark.usefixtures("instruction_set")
STRANGE = pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])


def rows_with(x: Any, test: Any = np.isnan) -> list[int]:
    """Tell in which rows, the second last dimension, of any head anything passes the test."""
    found = test(x).any(axis=-1)
    return sorted({int(i) for i in np.nonzero(found)[-1]})


def hide(how: str, visible: Any, dtype: Any) -> dict[str, Any]:
    """Say in each way there is which keys are visible."""
    if how == "joined":
        return {"mask": window() & visible | prefix(0)}
    if how == "bias":
        return {"bias": np.where(visible, 0.0, -np.inf).astype(dtype)}
    if how == "float mask":
        return {"mask": np.where(visible, 0.0, -np.inf)}
    if how == "structured":  # the rows of the tests that say so see the first 300 keys
        return {"mask": documents(np.zeros(len(visible), int), np.arange(530) // 300)}
    return {"mask": visible if how == "mask" else visible.astype(np.int8)}


@pytest.mark.parametrize("how", ["mask", "whole numbers", "bias", "float mask", "joined"])
def test_a_row_that_sees_no_key(
    rng: np.random.Generator, dtype: Any, queries: int, how: str
) -> None:
    inputs = draw(rng, (2, 2), (queries, 40), dtype=dtype)
    visible = rng.random((2, 1, queries, 40)) < 0.5
    visible[:, :, 1] = False
    options = hide(how, visible, dtype)
    seen = headwise.observe(*inputs, **options, query_offset=0)
    plain = scaled_dot_product_attention(*inputs, **options, query_offset=0)
    assert same_bits(plain, seen.output)
    assert not seen.output[:, :, 1].any()
    assert np.all(np.isneginf(seen.lse[:, :, 1]))
    assert np.all(seen.argmax[:, :, 1] == -1)
    assert np.all(np.isneginf(seen.max_score[:, :, 1]))
    for name in set(seen.statistics) - {"argmax", "max_score"}:
        assert not getattr(seen, name)[:, :, 1].any(), name
    assert not seen.weights(queries=1).any()
    assert np.array_equal(seen.empty_rows, [[1, 1], [1, 1]])


def test_no_keys_at_all(rng: np.random.Generator, dtype: Any, queries: int) -> None:
    inputs = draw(rng, (2, 2), (queries, 0), (8, 3), dtype=dtype)
    seen = headwise.observe(*inputs, causal(), query_offset=0)
    for output in (seen.output, scaled_dot_product_attention(*inputs)):
        assert same_bits(output, np.zeros((2, 2, queries, 3), dtype))
    assert np.all(np.isneginf(seen.lse))
    assert np.all(seen.argmax == -1)
    assert not seen.entropy.any()
    assert np.all(seen.empty_rows == queries)
    assert seen.weights().shape == (2, 2, queries, 0)


@STRANGE
@pytest.mark.parametrize(
    "how", ["mask", "whole numbers", "bias", "float mask", "causal", "structured"]
)
def test_what_is_not_visible_never_reaches_an_output(
    *, rng: np.random.Generator, dtype: Any, queries: int, how: str, strange: float, attend: Any
) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 530), dtype=dtype)
    visible = np.broadcast_to(np.arange(530) < 300, (queries, 530))
    options = {"mask": causal(), "query_offset": 299 - queries}
    options = options if how == "causal" else hide(how, visible, dtype)
    clean = attend(query, key, value, **options)
    key[..., 300:, 1] = strange
    value[..., 300:, :] = strange
    assert np.isfinite(clean).all()
    assert same_bits(attend(query, key, value, **options), clean)


@STRANGE
def test_a_value_seen_by_some_reaches_only_them(
    rng: np.random.Generator, dtype: Any, queries: int, strange: float, attend: Any
) -> None:
    query, key, value = draw(rng, (1, 2), (queries, 30), dtype=dtype)
    mask = rng.random((queries, 30)) < 0.8
    mask[:, 9] = np.arange(queries) % 2 == 0
    value[:, 0, 9, 2] = strange
    output = attend(query, key, value, mask)
    want = reference.attention(query, key, value, mask).output
    np.testing.assert_allclose(output, want, rtol=1e-5, atol=1e-6)
    assert rows_with(output, lambda x: ~np.isfinite(x)) == list(range(0, queries, 2))


def test_nan_in_a_query_row_stays_in_its_row(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 300), dtype=dtype)
    clean = attend(query, key, value)
    query[..., 1, 3] = np.nan
    output = attend(query, key, value)
    assert np.isnan(output[..., 1, :]).all()  # and never 0
    others = np.arange(queries) != 1
    assert same_bits(output[..., others, :], clean[..., others, :])


def test_nan_in_a_visible_key_reaches_the_rows_that_see_it(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 300), dtype=dtype)
    clean = attend(query, key, value, causal(), query_offset=258)
    key[..., 259, 0] = np.nan
    output = attend(query, key, value, causal(), query_offset=258)
    assert np.isnan(output[..., 1:, :]).all()
    assert same_bits(output[..., :1, :], clean[..., :1, :])


def test_nan_reaches_the_statistics_of_its_row_only(
    rng: np.random.Generator, dtype: Any, queries: int
) -> None:
    query, key, value = draw(rng, (1, 1), (queries, 30), dtype=dtype)
    query[..., 1, 3] = np.nan
    seen = headwise.observe(query, key, value, query_offset=0)
    names = ("lse", "entropy", "max_weight", "max_score", "distance", "first_weight")
    for name in names:
        assert np.array_equal(np.isnan(getattr(seen, name))[0, 0], np.arange(queries) == 1), name
    assert np.array_equal(seen.argmax[0, 0] == -1, np.arange(queries) == 1)
    assert not seen.empty_rows.any()


@pytest.mark.parametrize(
    ("lead", "lengths", "dims"),
    [
        ((2, 2), (0, 5), (8, 3)),
        ((0, 2), (4, 5), (8, 3)),
        ((2, 0), (4, 5), (8, 3)),
        ((2, 2), (4, 5), (8, 0)),
        ((2, 2), (20, 5), (0, 0)),
        ((0, 3, 2), (4, 0), (8, 3)),
    ],
)
def test_empty_sizes(
    *, rng: np.random.Generator, dtype: Any, lead: Any, lengths: Any, dims: Any, attend: Any
) -> None:
    output = attend(*draw(rng, lead, lengths, dims, dtype=dtype))
    assert output.shape == (*lead, lengths[0], dims[1])
    assert output.dtype == dtype


def test_head_dim_0_gives_every_key_the_same_weight(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), (0, 3), dtype=dtype)
    mean = inputs[2].mean(axis=-2, keepdims=True, dtype=float)
    output = attend(*inputs)
    np.testing.assert_allclose(output, np.broadcast_to(mean, output.shape), atol=8 * ulp(dtype))


def test_float64_stays_float64(rng: np.random.Generator, queries: int, attend: Any) -> None:
    inputs = draw(rng, (2, 2), (queries, 9))
    output = attend(*inputs, bias=np.full((1, 9), 1e-12))
    assert output.dtype == np.float64
    np.testing.assert_allclose(output, reference.attention(*inputs).output, rtol=1e-10, atol=1e-14)


def test_lists_whole_numbers_and_truth_values_become_float64(attend: Any) -> None:
    rows = [[1, 0], [0, 1]]
    want = reference.attention(rows, rows, rows).output
    for kind in (np.int8, np.uint16, np.int64, np.bool_):
        output = attend(*[np.array(rows, kind)] * 3)
        assert output.dtype == np.float64
        np.testing.assert_allclose(output, want, rtol=1e-14)
    for given in (rows, tuple(map(tuple, rows)), [[True, False], [False, True]]):
        assert same_bits(attend(given, given, given), attend(*[np.array(rows, float)] * 3))


@pytest.mark.parametrize(
    "bias_dtype",
    ["float32", "float64", ">f4", ">f8", "longdouble", ml_dtypes.float8_e4m3fn],
)
def test_a_bias_of_any_float_dtype(
    rng: np.random.Generator, dtype: Any, queries: int, bias_dtype: Any, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), dtype=dtype)
    bias = normal(rng, queries, 9, dtype=bias_dtype)
    want = reference.attention(*inputs, bias=bias.astype(np.float64)).output
    np.testing.assert_allclose(attend(*inputs, bias=bias), want, atol=10 * ulp(dtype))


def test_the_most_negative_number_is_an_ordinary_number(
    rng: np.random.Generator, dtype: Any, queries: int, attend: Any
) -> None:
    inputs = draw(rng, (2, 2), (queries, 9), dtype=dtype)
    mean = np.broadcast_to(inputs[2].mean(axis=-2, keepdims=True), (2, 2, queries, 8))
    for least in (np.finfo(dtype).min, np.finfo(np.float64).min):
        output = attend(*inputs, bias=np.full((queries, 9), least))
        np.testing.assert_allclose(output, mean, atol=8 * ulp(dtype))


def test_any_finite_scale(rng: np.random.Generator, dtype: Any, queries: int, attend: Any) -> None:
    query, key, value = draw(rng, (2, 2), (queries, 9), dtype=dtype)
    largest = reference.attention(query, key, value).scores.argmax(axis=-1)
    want = np.take_along_axis(value, largest[..., None], axis=-2)
    for scale in (1e30, 1e37, 1e39, 1e300):
        np.testing.assert_allclose(
            attend(query, key, value, scale=scale), want, rtol=8 * ulp(dtype)
        )
