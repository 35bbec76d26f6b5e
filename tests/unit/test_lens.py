"""The lens: recordings, numbers of heads, exports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise import lens, reference
from headwise.masks import causal

rng = np.random.default_rng(11)


@pytest.fixture(scope="module")
def sample() -> lens.Recording:
    return lens.load_sample()


@pytest.fixture(scope="module")
def found(sample: lens.Recording) -> lens.Atlas:
    return lens.profile(sample)


@pytest.fixture(scope="module")
def longer(sample: lens.Recording) -> lens.Recording:
    """Return the sample twice: too long for an exact map."""
    layers = {
        number: lens.Layer(
            *(
                np.tile(getattr(sample.layers[number], x), (1, 2, 1))
                for x in ("query", "key", "value")
            )
        )
        for number in (17, 18)
    }
    return lens.Recording(layers, causal=True)


def dense(recording: lens.Recording, layer: int) -> Any:
    """Return a layer's reference, from the oracle."""
    arrays = recording.layers[layer]
    mask = causal() if recording.causal else recording.mask
    q, k, v = (a[None] for a in (arrays.query, arrays.key, arrays.value))
    return reference.attention(q, k, v, mask)


def test_sample_is_what_it_says(sample: lens.Recording) -> None:
    assert sample.tokens is not None
    assert "".join(sample.tokens) == sample.text
    assert sample.kv_len == len(sample.tokens) == 156
    assert (sample.num_heads, sample.num_kv_heads, sample.causal) == (9, 3, True)
    assert {layer.query.shape for layer in sample.layers.values()} == {(9, 156, 64)}


@pytest.mark.parametrize(
    ("measure", "head", "least"),
    [
        ("previous_token", "16.0", 0.75),
        ("induction", "18.6", 0.55),
        ("duplicate_token", "8.0", 0.6),
        ("first_key", "18.8", 0.99),
        ("self_token", "11.6", 0.7),
    ],
)
def test_sample_shows_the_known_heads(
    found: lens.Atlas, measure: str, head: str, least: float
) -> None:
    name, number = found.strongest(measure, 1)[0]
    assert name == head
    assert number > least


def test_numbers_agree_with_the_oracle(sample: lens.Recording, found: lens.Atlas) -> None:
    for row, layer in enumerate(found.layers[:3]):
        seen = dense(sample, layer)
        weights = seen.weights[0]
        later = np.diagonal(weights, -1, axis1=1, axis2=2).mean(axis=1)
        expected = {
            "entropy": seen.entropy[0].mean(axis=1),
            "confidence": seen.max_weight[0].mean(axis=1),
            "distance": seen.distance[0].mean(axis=1),
            "previous_token": later,
            "first_key": weights[:, 1:, 0].mean(axis=1),
            "output_norm": seen.output_norm[0].mean(axis=1),
        }
        for name, numbers in expected.items():
            np.testing.assert_allclose(found.numbers[name][row], numbers, rtol=2e-5, atol=1e-6)


def test_copying_measures_agree_with_loops(sample: lens.Recording, found: lens.Atlas) -> None:
    assert sample.token_ids is not None
    weights, ids = dense(sample, 18).weights[0], sample.token_ids
    induction, duplicate = [], []
    for i in range(len(ids)):
        earlier = [j for j in range(i) if ids[j] == ids[i]]
        if earlier:
            duplicate.append(sum(weights[:, i, j] for j in earlier))
            induction.append(sum(weights[:, i, j + 1] for j in earlier))
    row = found.layers.index(18)
    np.testing.assert_allclose(
        found.numbers["induction"][row], np.mean(induction, axis=0), rtol=1e-4
    )
    np.testing.assert_allclose(
        found.numbers["duplicate_token"][row], np.mean(duplicate, axis=0), rtol=1e-4, atol=1e-6
    )


def test_views_hold_the_weights_and_what_keys_receive(
    sample: lens.Recording, found: lens.Atlas
) -> None:
    (text,) = found.texts
    view = text.layers[17]
    assert (text.query_len, text.kv_len, text.first_position) == (156, 156, 0)
    assert text.tokens == sample.tokens
    seen = dense(sample, 17)
    weights = seen.weights[0]
    assert (text.block, text.windows) == ((1, 1), [])
    np.testing.assert_allclose(view.block_mean, weights, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(view.block_max, weights, rtol=1e-4, atol=1e-7)
    viewers = np.arange(156, 0, -1)
    np.testing.assert_allclose(view.received, weights.sum(axis=1) / viewers, rtol=1e-4)
    np.testing.assert_allclose(view.entropy, seen.entropy[0], rtol=1e-4, atol=1e-5)
    keys = view.top_keys[..., 0]
    np.testing.assert_allclose(view.top_weights[..., 0], weights.max(axis=-1), rtol=1e-4)
    np.testing.assert_array_equal(keys, seen.argmax[0])
    for k, (near, far) in enumerate(text.distances):
        pairs = [np.diagonal(weights, -d, axis1=1, axis2=2) for d in range(near, min(far, 155) + 1)]
        mean = np.concatenate(pairs, axis=1).mean(axis=1)
        np.testing.assert_allclose(view.normalized_offset_mass[:, k], mean, rtol=1e-4, atol=1e-7)


def test_maps_of_longer_texts_are_of_blocks(longer: lens.Recording) -> None:
    (text,) = lens.profile(longer).texts
    assert text.block == (2, 2)
    blocks = dense(longer, 17).weights[0].reshape(9, 156, 2, 156, 2)
    view = text.layers[17]
    np.testing.assert_allclose(view.block_mean, blocks.mean(axis=(2, 4)), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(view.block_max, blocks.max(axis=(2, 4)), rtol=1e-4, atol=1e-7)


def test_windows_are_exact_weights(longer: lens.Recording) -> None:
    windows = [window for window in lens.profile(longer).texts[0].windows if window.layer == 18]
    weights = dense(longer, 18).weights[0]
    assert [window.head for window in windows] == list(range(9))
    for window in windows:
        rows, columns = (slice(a, a + n) for a, n in zip(
            (window.first_query, window.first_key), window.weights.shape, strict=True))  # fmt: skip
        assert window.weights.shape == (48, 48)
        exact = weights[window.head, rows, columns]
        np.testing.assert_allclose(window.weights, exact, rtol=1e-4, atol=1e-7)
    assert windows[6].weights[:, 1:].max() > 0.4  # the stripe of an induction head is in sight


def recording_of(length: int, *, mask: Any = None, is_causal: bool = False) -> lens.Recording:
    arrays = [rng.normal(size=(2, length, 8)).astype(np.float32) for _ in range(3)]
    return lens.Recording({4: lens.Layer(*arrays)}, mask=mask, causal=is_causal)


def test_received_counts_only_the_queries_that_see_a_key() -> None:
    mask = np.ones((6, 6), dtype=bool)
    mask[:4, 2] = False
    recording = recording_of(6, mask=mask)
    received = dense(recording, 4).weights[0].sum(axis=1)
    view = lens.profile(recording).texts[0].layers[4]
    assert mask.sum(axis=0)[2] == 2
    np.testing.assert_allclose(view.received, received / mask.sum(axis=0), rtol=1e-5)


def test_rows_that_see_nothing_count_in_no_mean() -> None:
    mask = np.tril(np.ones((6, 6), dtype=bool))
    mask[3] = False
    found = lens.profile(recording_of(6, mask=mask))
    assert found.empty_rows == 2
    assert (found.numbers["confidence"] > 0.2).all()
    assert np.isfinite(found.numbers["normalized_entropy"]).all()


def test_a_mask_that_blocks_everything_is_named() -> None:
    with pytest.raises(lens.RecordingError, match=r"blocks every key.*pass ~mask"):
        lens.profile(recording_of(6, mask=np.zeros((6, 6), dtype=bool)))


def test_progress_goes_from_nothing_to_everything(sample: lens.Recording) -> None:
    seen: list[float] = []
    lens.profile(sample, progress=lambda share, _: seen.append(share))
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)


def test_numbers_do_not_depend_on_threads(sample: lens.Recording, found: lens.Atlas) -> None:
    alone = lens.profile(sample, num_threads=1)
    for name, numbers in found.numbers.items():
        np.testing.assert_array_equal(alone.numbers[name], numbers)
