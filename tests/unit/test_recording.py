"""Files in: both formats, flat and split, and every kind of bad file."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from headwise import lens

rng = np.random.default_rng(3)


def arrays(heads: int = 4, kv_heads: int = 2, length: int = 6, dim: int = 8) -> dict[str, Any]:
    """Return split arrays of one layer."""
    shapes = {"query": heads, "key": kv_heads, "value": kv_heads}
    return {
        name: rng.normal(size=(h, length, dim)).astype(np.float32) for name, h in shapes.items()
    }


def flat(split: dict[str, Any]) -> dict[str, Any]:
    return {name: a.swapaxes(0, 1).reshape(a.shape[1], -1) for name, a in split.items()}


def npz(folder: Path, **content: Any) -> Path:
    path = folder / "recording.npz"
    np.savez(path, **content)
    return path


def same(recording: lens.Recording, split: dict[str, Any], layer: int = 0) -> None:
    for name, array in split.items():
        np.testing.assert_array_equal(getattr(recording.layers[layer], name), array)


def test_split_npz(tmp_path: Path) -> None:
    split = arrays()
    recording = lens.load(npz(tmp_path, **split))
    same(recording, split)
    assert (recording.num_heads, recording.num_kv_heads, recording.causal) == (4, 2, False)


def test_flat_npz_with_heads_from_the_caller_or_the_file(tmp_path: Path) -> None:
    split = arrays()
    same(lens.load(npz(tmp_path, **flat(split)), num_heads=4, num_kv_heads=2), split)
    facts = {"num_heads": 4, "num_kv_heads": 2, "causal": True, "model": "m"}
    recording = lens.load(npz(tmp_path, **flat(split), **facts))
    same(recording, split)
    assert (recording.causal, recording.model) == (True, "m")


def test_a_batch_of_one_is_taken_off(tmp_path: Path) -> None:
    split = arrays()
    same(lens.load(npz(tmp_path, **{n: a[None] for n, a in split.items()})), split)
    batch = {n: a[None] for n, a in flat(split).items()}
    same(lens.load(npz(tmp_path, **batch), num_heads=4, num_kv_heads=2), split)


def test_layers_are_sorted_by_number(tmp_path: Path) -> None:
    split = arrays()
    content = {f"layer.{n}.{role}": a for n in (10, 2) for role, a in split.items()}
    assert list(lens.load(npz(tmp_path, **content)).layers) == [2, 10]


def test_safetensors_with_metadata_and_bfloat16(tmp_path: Path) -> None:
    split = arrays()
    path = tmp_path / "recording.safetensors"
    metadata = {"tokens": json.dumps(list("abcdef")), "causal": "true", "num_heads": "4"}
    save_file(split, path, metadata=metadata | {"num_kv_heads": "2"})
    recording = lens.load(path)
    same(recording, split)
    assert recording.tokens == list("abcdef")
    assert recording.token_ids is not None
    assert len(set(recording.token_ids.tolist())) == 6
    same(lens.load(_as_bfloat16(tmp_path, split)), {n: _rounded(a) for n, a in split.items()})


def _rounded(array: Any) -> Any:
    return (array.view(np.uint32) & 0xFFFF0000).view(np.float32)


def _as_bfloat16(folder: Path, split: dict[str, Any]) -> Path:
    """Write a safetensors file by hand: NumPy has no bfloat16."""
    header, data = {}, b""
    for name, array in split.items():
        half = (array.view(np.uint32) >> 16).astype("<u2").tobytes()
        span = [len(data), len(data) + len(half)]
        header[name] = {"dtype": "BF16", "shape": list(array.shape), "data_offsets": span}
        data += half
    text = json.dumps(header).encode()
    path = folder / "bf16.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_float16_and_float64_become_working_precisions(tmp_path: Path) -> None:
    half = {name: a.astype(np.float16) for name, a in arrays().items()}
    assert lens.load(npz(tmp_path, **half)).layers[0].query.dtype == np.float32
    double = {name: a.astype(np.float64) for name, a in arrays().items()}
    assert lens.load(npz(tmp_path, **double)).layers[0].query.dtype == np.float64


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no arrays": ({"x": np.zeros(3)}, {}, r"holds no query, key and value.*but x"),
    "one role missing": ({"query": np.zeros((2, 3, 4))}, {}, r"layer 0 .*no key or value"),
    "flat without heads": (flat(arrays()), {}, r"flat.*--num-heads"),
    "heads that do not divide": (flat(arrays()), {"num_heads": 5}, r"5 heads do not divide"),
    "other heads than asked for": (arrays(), {"num_heads": 8}, r"4 heads, but 8"),
    "lengths that differ": (
        arrays() | {"value": np.zeros((2, 5, 8))},
        {},
        r"layer 0: query .* do not fit",
    ),
    "a batch of texts": (
        {name: np.stack([a, a]) for name, a in arrays().items()},
        {},
        r"of one text: pick one of the batch",
    ),
    "NaN": (
        arrays() | {"key": np.full((2, 6, 8), np.nan)},
        {},
        r"layer 0 key holds 96 numbers that are not finite.*head 0, row 0, column 0",
    ),
    "infinity in float16": (
        arrays() | {"query": np.full((4, 6, 8), np.inf, np.float16)},
        {},
        r"layer 0 query holds 192 numbers",
    ),
    "complex": (arrays() | {"key": np.zeros((2, 6, 8), complex)}, {}, r"dtype complex128"),
    "empty": ({n: np.zeros((2, 0, 8)) for n in arrays()}, {}, r"empty.*\(2, 0, 8\)"),
    "tokens of another length": (
        arrays() | {"tokens": np.array(["a", "b"])},
        {},
        r"tokens holds 2 tokens, but there are 6 keys",
    ),
    "tokens that are no texts": (
        arrays() | {"tokens": np.arange(6)},
        {},
        r"tokens has dtype int64",
    ),
    "layers that differ": (
        {f"layer.0.{n}": a for n, a in arrays().items()}
        | {f"layer.1.{n}": a for n, a in arrays(length=7).items()},
        {},
        r"layers 0 and 1 differ",
    ),
    "heads that are no number": (arrays() | {"num_heads": "many"}, {}, r"no whole number: 'many'"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_contents(what: str, tmp_path: Path) -> None:
    content, options, message = BAD[what]
    with pytest.raises(lens.RecordingError, match=message):
        lens.load(npz(tmp_path, **content), **options)


def test_bad_files(tmp_path: Path) -> None:
    text, broken = tmp_path / "a.txt", tmp_path / "b.npz"
    text.write_text("hello")
    broken.write_bytes(b"PK\x03\x04 not an archive")
    (tmp_path / "c.safetensors").write_bytes(b"\xff" * 64)
    cases = {
        tmp_path / "none.npz": "does not exist",
        tmp_path: "is a folder",
        text: r"is no .npz or .safetensors file",
        broken: "no readable .npz file",
        tmp_path / "c.safetensors": "no readable .safetensors file",
    }
    for path, message in cases.items():
        with pytest.raises(lens.RecordingError, match=message):
            lens.load(path)


def test_pickled_objects_are_not_loaded(tmp_path: Path) -> None:
    path = npz(tmp_path, query=np.array([{"a": 1}], dtype=object))
    with pytest.raises(lens.RecordingError, match="no readable"):
        lens.load(path)


def test_a_file_too_large_for_the_machine_is_refused_unread(tmp_path: Path) -> None:
    """The header states a petabyte; nothing of it is there."""
    header = io.BytesIO()
    facts = {"descr": "<f4", "fortran_order": False, "shape": (1 << 20, 1 << 14, 1 << 14)}
    np.lib.format.write_array_header_1_0(header, facts)  # type: ignore[arg-type]
    path = tmp_path / "huge.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("query.npy", header.getvalue())
    with pytest.raises(lens.RecordingError, match=r"GB of memory are free"):
        lens.load(path)
