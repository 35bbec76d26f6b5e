"""The atlas: what it counts, merges, writes and compares."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, lens, reference
from headwise.lens import sums, tables
from headwise.lens.measures import MEASURES, PATTERNS, patterns_of
from headwise.lens.texts import LayerTexts, Place, Tokens, text_view, wanted
from tests.support import draw, refuses


def read(inputs: Any, ids: Any = None, pieces: Any = ()) -> LayerTexts:
    """Have one layer read texts: all at once, or cut before some queries, as in generation."""
    query, key, value = inputs
    texts, edges = LayerTexts(keep=2), [0, *pieces, query.shape[-2]]
    for begin, end in pairwise(edges):
        tokens = None if ids is None else Tokens(ids[:, :end])
        place = Place(end - begin, end, begin, tokens=tokens, induction_distance=5)
        seen = headwise.observe(
            query[:, :, begin:end],
            key[:, :, :end],
            value[:, :, :end],
            causal(),
            query_offset=begin,
            statistics=wanted(place),
        )
        texts.add(seen, place)
    return texts


def atlas_of(inputs: Any, ids: Any = None, pieces: Any = ()) -> lens.Atlas:
    texts, atlas = read(inputs, ids, pieces), lens.Atlas()
    atlas.add(0, texts.close())
    return atlas


def same(one: lens.Atlas, other: lens.Atlas) -> None:
    assert one.numbers.keys() == other.numbers.keys()
    for name, table in one.numbers.items():
        np.testing.assert_allclose(table, other.numbers[name], rtol=1e-10, err_msg=name)


@pytest.fixture
def inputs(rng: np.random.Generator) -> Any:
    return draw(rng, (3, 4), (40, 40), kv_heads=2)


@pytest.fixture
def ids(rng: np.random.Generator) -> Any:
    return rng.integers(12, size=(3, 40))


@pytest.fixture(scope="module")
def sample() -> lens.Atlas:
    return lens.profile(lens.load_sample())


def test_numbers_are_the_oracles(inputs: Any, ids: Any) -> None:
    true, numbers = reference.attention(*inputs, causal()), atlas_of(inputs, ids).numbers
    weights = true.weights

    def mean(x: Any) -> Any:
        return x.mean(axis=(0, 2))

    expected = {
        "entropy": mean(true.entropy),
        "normalized_entropy": mean(true.normalized_entropy),
        "confidence": mean(true.max_weight),
        "distance": mean(true.distance),
        "previous_token": mean(true.previous_weight[..., 1:]),
        "first_key": mean(weights[..., 1:, 0]),
        "self_token": mean(true.self_weight),
        "output_norm": mean(true.output_norm),
        "max_score": mean(true.max_score),
        "largest_score": true.max_score.max(axis=(0, 2)),
        "sink_rate": (true.normalized_received[..., 0] > sums.SINK).mean(axis=0),
        "induction_diagonal": np.diagonal(weights, -5, axis1=2, axis2=3).mean(axis=(0, 2)),
        "vertical": np.sort(true.received, -1)[..., -3:].sum(axis=(0, 2)) / (3 * 40),
    }
    for name, want in expected.items():
        np.testing.assert_allclose(numbers[name][0], want, rtol=1e-10, err_msg=name)
    offsets = np.arange(40) - true.argmax
    shares = [(offsets == d).mean(axis=(0, 2)) for d in range(40)]
    np.testing.assert_allclose(numbers["positional"][0], np.max(shares, axis=0))
    flat = np.moveaxis(weights, 1, 0).reshape(4, -1)
    cosine = flat @ flat.T / np.outer(*2 * [np.linalg.norm(flat, axis=1)])
    np.testing.assert_allclose(numbers["nearest_head"][0], (cosine - 2 * np.eye(4)).max(axis=1))


def test_copies_are_found_by_loops(inputs: Any, ids: Any) -> None:
    weights, numbers = reference.attention(*inputs, causal()).weights, atlas_of(inputs, ids).numbers
    induction, duplicate = [], []
    for text, tokens in enumerate(ids):
        for i in range(40):
            earlier = [j for j in range(i) if tokens[j] == tokens[i]]
            if earlier:
                after = [j + 1 for j in earlier]
                induction.append(weights[text, :, i, after].sum(axis=0))
                duplicate.append(weights[text, :, i, earlier].sum(axis=0))
    np.testing.assert_allclose(numbers["induction"][0], np.mean(induction, axis=0))
    np.testing.assert_allclose(numbers["duplicate_token"][0], np.mean(duplicate, axis=0))


@pytest.mark.parametrize("pieces", [[39], [1, 2, 3], range(20, 40), [13, 30]])
def test_texts_read_in_pieces_are_the_same(inputs: Any, ids: Any, pieces: Any) -> None:
    whole, cut = read(inputs, ids), read(inputs, ids, pieces)
    same(atlas_of(inputs, ids), atlas_of(inputs, ids, pieces))
    one, other = (text_view({0: texts}, 1, "x", None) for texts in (whole, cut))
    assert (one.query_len, one.kv_len, one.block) == (other.query_len, other.kv_len, other.block)
    assert one.distances == other.distances
    for name in (
        "block_mean",
        "block_max",
        "received",
        "entropy",
        "normalized_offset_mass",
        "top_weights",
    ):
        a, b = (getattr(text.layers[0], name) for text in (one, other))
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7, err_msg=name)


def test_maps_grow_and_become_coarser(rng: np.random.Generator) -> None:
    inputs = draw(rng, (1, 2), (300, 300), (4, 4))
    view = text_view({0: read(inputs, pieces=range(3, 300))}, 0, "x", None)
    weights = reference.attention(*inputs, causal()).weights[0]
    assert view.block == (2, 2)
    blocks = weights.reshape(2, 150, 2, 150, 2)
    np.testing.assert_allclose(view.layers[0].block_mean, blocks.mean(axis=(2, 4)), atol=1e-7)
    np.testing.assert_allclose(view.layers[0].block_max, blocks.max(axis=(2, 4)), atol=1e-7)


def test_merging_texts_is_reading_them_together(inputs: Any, ids: Any) -> None:
    parts = [atlas_of([x[k : k + 1] for x in inputs], ids[k : k + 1]) for k in range(3)]
    same(lens.merge(parts), atlas_of(inputs, ids))
    assert lens.merge(parts).num_texts == 3
    assert parts[0].num_texts == 1  # and the parts are left as they are


def test_batches_of_other_lengths_merge(rng: np.random.Generator, inputs: Any) -> None:
    short = [x[:, :, :7] for x in draw(rng, (1, 4), (9, 9), kv_heads=2)]
    numbers = atlas_of(inputs).merge(atlas_of(short)).numbers
    whole, part = (reference.attention(*x, causal()).entropy for x in (inputs, short))
    total = whole.sum(axis=(0, 2)) + part.sum(axis=(0, 2))
    np.testing.assert_allclose(numbers["entropy"][0], total / (3 * 40 + 7), rtol=1e-10)


def test_layers_may_have_different_heads(rng: np.random.Generator) -> None:
    atlas = lens.Atlas()
    for layer, heads in ((7, 2), (3, 4)):
        atlas.add(layer, read(draw(rng, (1, heads), (9, 9))).close())
    assert (atlas.layers, atlas.num_heads) == ([3, 7], 4)
    entropy, largest = atlas.numbers["entropy"], atlas.numbers["largest_score"]
    assert np.isnan(entropy).tolist() == [[False] * 4, [False, False, True, True]]
    assert np.isnan(largest).tolist() == np.isnan(entropy).tolist()
    assert all(name != "7.2" for name, _ in atlas.strongest("entropy", 99))


def test_other_layers_cannot_be_merged(inputs: Any, sample: lens.Atlas) -> None:
    with refuses(ValueError, "different layers", "[0, 5, 8"):
        sample.merge(atlas_of(inputs))
    with refuses(ValueError, "layers and heads are the same", "9 × 9", "1 × 4"):
        lens.compare(sample, atlas_of(inputs))


def test_the_dataset_says_what_its_numbers_are(sample: lens.Atlas) -> None:
    data = sample.dataset
    assert data.entropy.dims == ("layer", "head")
    assert data.layer.values.tolist() == sample.layers
    for name in sample.numbers:
        assert data[name].attrs["formula"] == MEASURES[name].formula
        assert data[name].attrs["units"]
        np.testing.assert_array_equal(data[name].values, sample.numbers[name])
    assert data.attrs["model"] == "SmolLM2-135M-Instruct"
    assert "see a key" in data.attrs["normalisation"]
    assert set(np.unique(data.pattern)) <= {*PATTERNS, ""}
    assert data.fixed_offset.sel(layer=16, head=0) == 1
    assert data.fixed_offset.sel(layer=11, head=6) == 0
    assert (data.offset[0], data.offset[-1] <= 155 <= data.offset_to[-1]) == (0, True)
    at_one = data.normalized_offset_mass.sel(layer=16, head=0, offset=1)
    np.testing.assert_allclose(at_one, data.previous_token.sel(layer=16, head=0))
    same_head = np.diagonal(data.head_similarity.values, axis1=1, axis2=2)
    np.testing.assert_allclose(same_head, 1)


def test_patterns_follow_their_rule(sample: lens.Atlas) -> None:
    patterns = sample.dataset.pattern
    assert patterns.sel(layer=18, head=8) == "vertical"
    assert patterns.sel(layer=16, head=0) == "diagonal"
    numbers = {"vertical": 0.6, "close_by": 0.6, "normalized_distance": 0.1, "entropy": 1.0}
    table = {name: np.array([[x]]) for name, x in numbers.items()}
    assert patterns_of(table).tolist() == [["vertical + diagonal"]]
    assert patterns_of({**table, "vertical": table["entropy"] * 0}).tolist() == [["diagonal"]]
    local = {**table, "vertical": np.zeros((1, 1)), "close_by": np.zeros((1, 1))}
    assert patterns_of(local).tolist() == [["block"]]
    assert patterns_of({**local, "normalized_distance": np.ones((1, 1))})[0, 0] == "heterogeneous"
    assert patterns_of({"entropy": np.full((1, 1), np.nan)}).tolist() == [[""]]


def test_saved_and_loaded_it_is_the_same(sample: lens.Atlas, tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    sample.save(tmp_path / "a.nc")
    again = lens.Atlas.load(tmp_path / "a.nc")
    same(sample, again)
    assert (again.model, again.layers, again.facts) == (sample.model, sample.layers, sample.facts)
    same(again.merge(sample), sample.merge(sample))
    with xarray.open_dataset(tmp_path / "a.nc", engine="h5netcdf") as data:
        assert data.induction.attrs["formula"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.nc"]


def test_names_of_layers_are_saved(rng: np.random.Generator, tmp_path: Path) -> None:
    atlas = lens.Atlas(model="t5")
    for name in ("encoder.0", "decoder.0"):
        atlas.add(name, read(draw(rng, (1, 2), (9, 9))).close())
    atlas.save(tmp_path / "a.nc")
    assert lens.Atlas.load(tmp_path / "a.nc").layers == ["encoder.0", "decoder.0"]


def test_what_is_no_atlas_is_refused(tmp_path: Path) -> None:
    with refuses(ValueError, "b.nc", "does not exist"):
        lens.Atlas.load(tmp_path / "b.nc")
    (tmp_path / "c.nc").write_text("no")
    with refuses(ValueError, "c.nc", "no atlas"):
        lens.Atlas.load(tmp_path / "c.nc")


def test_nothing_half_written_is_left(sample: lens.Atlas, tmp_path: Path) -> None:
    sample.save(tmp_path / "a.nc")
    before = (tmp_path / "a.nc").read_bytes()
    broken = replace(sample, facts=[object()])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        broken.save(tmp_path / "a.nc")
    assert (tmp_path / "a.nc").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_csv_and_json_hold_the_numbers(sample: lens.Atlas, tmp_path: Path) -> None:
    sample.to_csv(tmp_path / "heads.csv")
    tables.write_json(sample, tmp_path / "heads.json")
    with (tmp_path / "heads.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    data = json.loads((tmp_path / "heads.json").read_text())
    assert len(rows) == 81
    best = max(rows, key=lambda row: float(row["induction"]))
    assert (best["layer"], best["head"]) == ("18", "6")
    assert data["measures"]["induction"]["values"][6][6] == pytest.approx(float(best["induction"]))
    assert data["measures"]["induction"]["formula"]


def test_parquet_is_a_long_table(sample: lens.Atlas, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    sample.to_parquet(tmp_path / "heads.parquet")
    table = parquet.read_table(tmp_path / "heads.parquet").to_pylist()
    assert len(table) == 81 * len(sample.numbers)
    row = next(r for r in table if (r["layer"], r["head"], r["measure"]) == ("18", 6, "induction"))
    assert row["value"] == pytest.approx(0.58, abs=0.01)


def test_a_comparison_finds_the_head_that_changed(sample: lens.Atlas) -> None:
    parts = {layer: dict(part) for layer, part in sample.parts.items()}
    parts[17] = {**parts[17], "induction": parts[17]["induction"].copy()}
    parts[17]["induction"][3] = 0
    found = lens.compare(sample, replace(sample, parts=parts))
    change, second, *_ = found.most_changed()
    assert (change.name, change.most, change.after) == ("17.3", "induction", 0.0)
    assert change.before == pytest.approx(0.56, abs=0.01)
    assert second.amount == 0
    assert np.count_nonzero(found.differences["induction"]) == 1


def test_what_cannot_be_merged_is_named(sample: lens.Atlas) -> None:
    with pytest.raises(ValueError, match="got none"):
        lens.merge([])
    with pytest.raises(TypeError, match="expected atlases, got int"):
        lens.merge([sample, 3])  # type: ignore[list-item]


def test_unknown_names_are_refused(sample: lens.Atlas) -> None:
    with refuses(ValueError, "kind must be", "induction", "'copying'"):
        sample.find("copying")
    with refuses(ValueError, "measure must be", "entropy", "'size'"):
        sample.strongest("size")
    with refuses(ValueError, "no text was read"):
        lens.Atlas().strongest("entropy")
    with refuses(ValueError, "the block of `watch` has not ended"):
        lens.Atlas().find("induction")
    assert repr(lens.Atlas()) == "<Atlas: unnamed, 0 layers × 0 heads, 0 texts>"
