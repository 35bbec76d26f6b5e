"""The lens: recordings, numbers of heads, exports."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import lens, reference
from headwise.lens.measures import Copies
from headwise.masks import causal

rng = np.random.default_rng(11)


@pytest.fixture(scope="module")
def sample() -> lens.Recording:
    return lens.load_sample()


@pytest.fixture(scope="module")
def found(sample: lens.Recording) -> lens.Profile:
    return lens.profile(sample)


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
    found: lens.Profile, measure: str, head: str, least: float
) -> None:
    name, number = found.strongest(lens.MEASURES[measure], 1)[0]
    assert name == head
    assert number > least


def test_numbers_agree_with_the_oracle(sample: lens.Recording, found: lens.Profile) -> None:
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


def test_copying_measures_agree_with_loops(sample: lens.Recording, found: lens.Profile) -> None:
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


def test_maps_hold_the_weights_and_what_keys_receive(
    sample: lens.Recording, found: lens.Profile
) -> None:
    weights, head_map = dense(sample, 17).weights[0], found.maps[17]
    assert head_map.block == 1
    np.testing.assert_allclose(head_map.weights, weights, rtol=1e-4, atol=1e-7)
    viewers = np.arange(156, 0, -1)
    np.testing.assert_allclose(head_map.received, weights.sum(axis=1) / viewers, rtol=1e-4)


def recording_of(length: int, *, mask: Any = None, is_causal: bool = False) -> lens.Recording:
    arrays = [rng.normal(size=(2, length, 8)).astype(np.float32) for _ in range(3)]
    return lens.Recording({4: lens.Layer(*arrays)}, mask=mask, causal=is_causal)


@pytest.mark.parametrize("length", [193, 400])
def test_long_maps_are_means_of_blocks(length: int) -> None:
    recording = recording_of(length, is_causal=True)
    head_map, weights = lens.profile(recording).maps[4], dense(recording, 4).weights[0]
    assert head_map.block == -(-length // 192)
    b = head_map.block
    np.testing.assert_allclose(
        head_map.weights[:, 1, 0], weights[:, b : 2 * b, :b].mean((1, 2)), 1e-4
    )
    last = slice((length - 1) // b * b, length)
    np.testing.assert_allclose(
        head_map.weights[:, -1, -1], weights[:, last, last].mean((1, 2)), 1e-4
    )


def test_received_counts_only_the_queries_that_see_a_key() -> None:
    mask = np.ones((6, 6), dtype=bool)
    mask[:4, 2] = False
    found = lens.profile(recording_of(6, mask=mask))
    received = dense(found.recording, 4).weights[0].sum(axis=1)
    assert mask.sum(axis=0)[2] == 2
    np.testing.assert_allclose(found.maps[4].received, received / mask.sum(axis=0), rtol=1e-5)


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


def test_copies() -> None:
    copies = Copies(np.array([7, 8, 7, 8, 9]))
    assert copies.repeated.tolist() == [False, False, True, True, False]
    assert np.argwhere(copies.duplicates(slice(0, 5))).tolist() == [[2, 0], [3, 1]]
    assert np.argwhere(copies.successors(slice(0, 5))).tolist() == [[2, 1], [3, 2]]
    assert np.argwhere(copies.successors(slice(3, 5))).tolist() == [[0, 2]]


def test_progress_goes_from_nothing_to_everything(sample: lens.Recording) -> None:
    seen: list[float] = []
    lens.profile(sample, progress=lambda share, _: seen.append(share))
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)


def test_csv_and_json_hold_the_numbers(found: lens.Profile, tmp_path: Path) -> None:
    lens.write_csv(found, tmp_path / "heads.csv")
    lens.write_json(found, tmp_path / "heads.json")
    with (tmp_path / "heads.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    data = json.loads((tmp_path / "heads.json").read_text())
    assert len(rows) == 81
    best = max(rows, key=lambda row: float(row["induction"]))
    assert (best["layer"], best["head"]) == ("18", "6")
    assert data["measures"]["induction"]["values"][6][6] == pytest.approx(float(best["induction"]))
    assert data["measures"]["induction"]["formula"]


def test_numbers_do_not_depend_on_threads(sample: lens.Recording, found: lens.Profile) -> None:
    alone = lens.profile(sample, num_threads=1)
    for name, numbers in found.numbers.items():
        np.testing.assert_array_equal(alone.numbers[name], numbers)
