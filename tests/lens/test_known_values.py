"""Values known beforehand: worked examples, patterns with a formula, and published models.

The models are not part of the project. Where ``HEADWISE_GPT2`` or ``HEADWISE_BERT`` names the
folder of GPT-2 small or BERT-base, their heads are looked at, too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, lens
from headwise.lens.texts import LayerTexts, Place, Tokens, wanted


def observe(weights: Any, statistics: Any) -> headwise.Observation:
    """Observe attention whose weights are given: scores are their logarithms."""
    weights = np.asarray(weights, float)
    with np.errstate(divide="ignore"):
        bias = np.log(weights)
    x = np.zeros((1, 1, *weights.shape))
    return headwise.observe(x, x, x, bias=bias, query_offset=0, statistics=statistics)


def atlas_of(weights: Any, ids: Any = None) -> lens.Atlas:
    n = len(weights)
    place = Place(n, n, 0, tokens=None if ids is None else Tokens(np.asarray(ids)[None]))
    texts, atlas = LayerTexts(keep=0), lens.Atlas()
    texts.add(observe(weights, wanted(place)), place)
    atlas.add(0, texts.close())
    return atlas


PATTERN = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.15, 0.5, 0.25]]


def test_the_worked_example_of_a_published_pattern() -> None:
    """The previous token has 0.325 of all attention, 0.842 without first key and self."""
    seen = observe(PATTERN, "all")
    np.testing.assert_allclose(seen.weights()[0, 0], PATTERN, atol=1e-12)
    previous = seen.previous_weight[0, 0]
    np.testing.assert_allclose(previous.sum() / 4, 0.325, rtol=1e-12)
    first, own = seen.first_weight[0, 0], seen.self_weight[0, 0]
    others = 1 - first - np.where(np.arange(4) > 0, own, 0)
    not_first = np.where(np.arange(4) > 1, previous, 0)
    np.testing.assert_allclose(not_first.sum() / others.sum(), 0.842, atol=5e-4)
    np.testing.assert_allclose(seen.received[0, 0], np.sum(PATTERN, axis=0), rtol=1e-12)
    np.testing.assert_allclose(seen.offset_mass.values[0, 0, 3:], [2.25, 1.3, 0.35, 0.1])


def test_uniform_causal_rows() -> None:
    n = 50
    uniform = np.tril(np.ones((n, n))) / np.arange(1, n + 1)[:, None]
    atlas, i = atlas_of(uniform), np.arange(n)
    expected = {
        "entropy": np.log(i + 1).mean(),
        "confidence": (1 / (i + 1)).mean(),
        "distance": (i / 2).mean(),
        "normalized_distance": (i > 0).mean(),
        "first_key": (1 / (i + 1))[1:].mean(),
    }
    for name, want in expected.items():
        np.testing.assert_allclose(atlas.numbers[name][0, 0], want, rtol=1e-12, err_msg=name)
    received = observe(uniform, "received").received[0, 0]
    np.testing.assert_allclose(received, [np.sum(1 / (i[j:] + 1)) for j in i], rtol=1e-12)


def test_a_head_of_the_previous_token() -> None:
    n = 30
    shifted = np.eye(n, k=-1)
    shifted[0, 0] = 1
    numbers = atlas_of(shifted).numbers
    assert numbers["previous_token"][0, 0] == 1
    assert numbers["entropy"][0, 0] == 0
    np.testing.assert_allclose(numbers["positional"][0, 0], (n - 1) / n)
    assert atlas_of(shifted).dataset.pattern.item() == "diagonal"


def test_a_head_of_induction_and_one_of_copies() -> None:
    ids = np.concatenate([np.arange(10), np.arange(10)])
    after, same = np.eye(20), np.eye(20)
    for i in range(10, 20):
        after[i], same[i] = np.eye(20)[i - 9], np.eye(20)[i - 10]
    assert atlas_of(after, ids).numbers["induction"][0, 0] == 1
    assert atlas_of(after, ids).numbers["duplicate_token"][0, 0] == 0
    assert atlas_of(same, ids).numbers["duplicate_token"][0, 0] == 1
    assert atlas_of(np.eye(20), ids).numbers["duplicate_token"][0, 0] == 0  # itself is no copy


@pytest.mark.parametrize(("share", "rate"), [(0.31, 1.0), (0.27, 0.0)])
def test_a_sink_receives_more_than_three_tenths(share: float, rate: float) -> None:
    n = 40
    rest = np.tril(np.ones((n, n)), 0)
    rest[:, 0] = 0
    rest[0, 0] = 1
    rest /= rest.sum(axis=1, keepdims=True)
    weights = rest * (1 - share) + share * np.eye(n)[0]
    weights[0] = np.eye(n)[0]
    mean = weights[:, 0].mean()
    assert (mean > 0.3) == bool(rate)
    assert atlas_of(weights).numbers["sink_rate"][0, 0] == rate


def test_permuted_heads_have_permuted_numbers(rng: np.random.Generator) -> None:
    inputs, order = rng.normal(size=(3, 1, 4, 60, 8)), [2, 0, 3, 1]
    found = []
    for q, k, v in (inputs, inputs[:, :, order]):
        place = Place(60, 60, 0)
        texts = LayerTexts(keep=0)
        texts.add(headwise.observe(q, k, v, causal(), statistics=wanted(place)), place)
        found.append(texts.close())
    for name, whole in found[0].items():
        there = whole[order][:, order] if name == "products" else whole[order]
        np.testing.assert_allclose(there, found[1][name], rtol=1e-12, err_msg=name)


# ---- published models ----------------------------------------------------------------------------


def folder(variable: str) -> Path:
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"the model is not part of the project: name its folder in {variable}")
    return Path(path)


def test_gpt2_small_has_its_known_heads() -> None:
    """Induction 5.1, 5.5, 6.9, 7.2, 7.10, previous token 4.11, duplicate token 0.1, 0.10, 3.0."""
    from headwise.lens import models

    model = models.load_model(folder("HEADWISE_GPT2"))
    atlas = models.look(model, model.repeated(50), induction_distance=49)
    found = [name for name, _ in atlas.strongest("induction_diagonal", 8)]
    assert {"5.1", "5.5", "6.9", "7.2", "7.10"} <= set(found)
    name, number = atlas.strongest("previous_token", 1)[0]
    assert (name, round(number, 2)) == ("4.11", 1.0)
    assert {"0.1", "0.10", "3.0"} <= {n for n, _ in atlas.strongest("duplicate_token", 6)}


def test_bert_base_has_positional_heads() -> None:
    """Clark et al. 2019: heads of BERT-base attend to the next or the previous token."""
    from headwise.lens import models

    model = models.load_model(folder("HEADWISE_BERT"))
    text = lens.load_sample().text
    atlas = models.look(model, [model.read("sample", text, None)[0]])
    assert atlas.numbers["previous_token"].max() > 0.5
    assert atlas.numbers["next_token"].max() > 0.5
