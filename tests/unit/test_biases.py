"""Biases as objects: what they add, how they add up, and what is refused as a bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import alibi, alibi_slopes, relative
from headwise.biases import Bias
from tests.support import draw, refuses


@pytest.mark.parametrize("offset", [-3, 0, 2])
def test_alibi_by_its_definition(offset: int) -> None:
    got = alibi([0.5, 2.0]).to_array(3, 4, offset)
    for h, slope in enumerate((0.5, 2.0)):
        want = [[-slope * abs(i + offset - j) for j in range(4)] for i in range(3)]
        np.testing.assert_allclose(got[h], want)


@pytest.mark.parametrize("offset", [-3, 0, 2])
def test_relative_by_its_definition(rng: np.random.Generator, offset: int) -> None:
    table = rng.normal(size=(2, 5))
    got = relative(table).to_array(4, 6, offset)
    for h in range(2):
        want = [
            [table[h, min(max(j - (i + offset), -2), 2) + 2] for j in range(6)] for i in range(4)
        ]
        np.testing.assert_allclose(got[h], want)


def test_the_usual_slopes() -> None:
    assert alibi_slopes(8).tolist() == [2.0**-n for n in range(1, 9)]
    twelve = alibi_slopes(12)
    np.testing.assert_allclose(twelve[:8], alibi_slopes(8))
    np.testing.assert_allclose(twelve[8:], alibi_slopes(16)[::2][:4])
    assert alibi_slopes(1).tolist() == [2.0**-8]
    for wrong, kind in ((0, ValueError), (True, TypeError), (2.0, TypeError)):
        with refuses(kind, "num_heads"):
            alibi_slopes(wrong)  # type: ignore[arg-type]


def test_biases_add_up(rng: np.random.Generator, attend: Any, queries: int) -> None:
    inputs = draw(rng, (2, 3), (queries, 9))
    dense = rng.normal(size=(1, 3, queries, 9))
    parts = [alibi([0.1, 0.2, 0.3]), relative(rng.normal(size=(3, 7))), alibi([1, 0, 1])]
    parts += [relative(rng.normal(size=(3, 3)))]
    total = dense + sum(part.to_array(queries, 9, 2) for part in parts)
    want = attend(*inputs, bias=total, query_offset=2)
    for bias in (
        parts[0] + parts[1] + dense + parts[2] + parts[3],
        dense + (parts[3] + parts[2]) + (parts[1] + parts[0]),
    ):
        np.testing.assert_allclose(bias.to_array(queries, 9, 2), total)
        np.testing.assert_allclose(attend(*inputs, bias=bias, query_offset=2), want, rtol=1e-12)


def test_one_of_minus_infinity_in_a_table_hides(rng: np.random.Generator, attend: Any) -> None:
    query, key, value = draw(rng, (1, 2), (20, 20))
    key[..., 10, :] = np.nan
    key[..., 11, :] = value[..., 11, :] = np.inf
    table = np.zeros((2, 41))
    table[:, 20:] = -np.inf  # sees earlier keys only
    got = attend(query, key, value, bias=relative(table))
    assert np.isfinite(got[..., :11, :]).all()
    assert not got[..., 0, :].any()
    want = attend(query, key, value, headwise.causal() & ~np.eye(20, dtype=bool))
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_biases_say_what_they_are() -> None:
    bias = alibi([0.5]) + relative([[1.0, 2.0, 3.0]]) + np.zeros((2, 3))
    assert repr(bias) == "alibi([0.5]) + relative(<table (1, 3)>) + <bias (2, 3)>"


def test_biases_are_values() -> None:
    dense = np.zeros((2, 3))
    biases = [alibi([0.5]), alibi([0.25]), relative([[1.0]]), relative([[1.0, 2.0, 3.0]])]
    biases += [alibi([0.5]) + dense, alibi([0.5]) + relative([[1.0]])]
    assert len(set(biases)) == len(biases)
    assert alibi([0.5]) == alibi([0.5])
    table = relative([[1.0]])
    assert alibi([0.5]) + table + dense == alibi([0.5]) + (table + dense)
    assert alibi([1.0]) != relative([[1.0]])


def test_biases_keep_their_numbers() -> None:
    slopes = np.array([0.5, 0.25])
    bias = alibi(slopes)
    slopes[:] = 9
    assert repr(bias) == "alibi([0.5, 0.25])"


REFUSED: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "matrix of slopes": (lambda: alibi([[1.0]]), ValueError, ("slopes", "(num_heads,)", "(1, 1)")),
    "no slope": (lambda: alibi(True), TypeError, ("slopes", "bool")),
    "slope without end": (lambda: alibi([np.inf]), ValueError, ("slopes", "2**60", "inf")),
    "even table": (lambda: relative([[1.0, 2.0]]), ValueError, ("table", "2 · max", "(1, 2)")),
    "flat table": (lambda: relative([1.0]), ValueError, ("table", "num_heads", "(1,)")),
    "and nothing": (lambda: alibi([1.0]) + None, TypeError, ("None", "expected a bias")),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_wrong_arguments_are_refused(what: str) -> None:
    make, kind, words = REFUSED[what]
    with refuses(kind, *words):
        make()


REFUSED_IN_A_CALL: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "slopes of other heads": (alibi([1.0]), ValueError, ("slopes", "3 heads", "(1,)")),
    "table of other heads": (relative([[1.0]] * 2), ValueError, ("table", "3 heads", "(2, 1)")),
    "boolean": (np.ones((4, 4), bool), TypeError, ("bias", "bool", "mask=")),
    "boolean in a sum": (alibi([1.0] * 3) + np.ones((4, 4), bool), TypeError, ("bias", "mask=")),
    "wrong shape": (alibi([1.0] * 3) + np.ones((5, 4)), ValueError, ("bias", "(5, 4)")),
    "unknown": (Bias(), TypeError, ("bias", "headwise.biases")),
}


@pytest.mark.parametrize("what", REFUSED_IN_A_CALL)
def test_what_is_no_bias_is_refused(what: str, attend: Any) -> None:
    bias, kind, words = REFUSED_IN_A_CALL[what]
    x = np.zeros((1, 3, 4, 8))
    with refuses(kind, *words):
        attend(x, x, x, bias=bias)


def test_structured_biases_depend_on_positions(attend: Any) -> None:
    x, y = np.zeros((1, 1, 2, 4)), np.zeros((1, 1, 5, 4))
    for bias in (alibi([1.0]), relative([[1.0]])):
        with refuses(ValueError, "the bias depends on positions", "query_offset"):
            attend(x, y, y, bias=bias)
