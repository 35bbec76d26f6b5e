"""The two file formats: NumPy's ``.npz`` and ``.safetensors``.

Both give a dictionary of arrays and one of facts (texts and numbers about them). Sizes are read
before any data, so that a file too large for this machine is refused and not half read.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from headwise._arrays import Array
from headwise._errors import listing, shape_text

FORMATS = (".npz", ".safetensors")
_FACTS = ("num_heads", "num_kv_heads", "causal", "model", "text")
_BFLOAT16 = "BF16"


class FormatError(Exception):
    """A file that is none of the formats, or broken."""


def read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read arrays and facts from a file.

    Raises
    ------
    FormatError
        Where that fails; the message says why.
    """
    if not path.exists():
        raise FormatError(f"{path} does not exist")
    if path.is_dir():
        raise FormatError(f"{path} is a folder, expected a {listing(FORMATS)} file")
    if path.suffix not in FORMATS:
        raise FormatError(f"{path} is no {listing(FORMATS)} file")
    try:
        return _read_npz(path) if path.suffix == ".npz" else _read_safetensors(path)
    except PermissionError:
        raise FormatError(f"{path} cannot be read: permission denied") from None
    except MemoryError:
        raise FormatError(f"{path} does not fit into this machine's memory") from None


def _read_npz(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    try:
        _check_size(path, _npz_bytes(path))
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, ValueError, OSError, EOFError) as error:
        raise FormatError(f"{path} is no readable .npz file: {error}") from None
    facts: dict[str, Any] = {
        name: _fact(name, arrays.pop(name)) for name in _FACTS if name in arrays
    }
    if "tokens" in arrays:
        facts["tokens"] = _texts(arrays.pop("tokens"))
    return arrays, facts


def _fact(name: str, array: Array) -> Any:
    if array.size != 1:
        raise FormatError(
            f"{name} must be one value, got an array of shape {shape_text(array.shape)}"
        )
    return array.item()


def _texts(tokens: Array) -> list[str]:
    if tokens.ndim != 1 or tokens.dtype.kind not in "US":
        raise FormatError(
            f"tokens has dtype {tokens.dtype} and shape {shape_text(tokens.shape)}, expected one "
            "text for each key: save numpy.array(list_of_texts)"
        )
    return [t.decode("utf-8", "replace") if isinstance(t, bytes) else t for t in tokens.tolist()]


def _npz_bytes(path: Path) -> int:
    """Add up the sizes that the arrays' headers state, without reading the arrays."""
    total = 0
    with zipfile.ZipFile(path) as archive:
        for member in archive.namelist():
            with archive.open(member) as stream:
                major, _ = np.lib.format.read_magic(stream)
                reader = (
                    np.lib.format.read_array_header_1_0
                    if major == 1
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = reader(stream)
                size = dtype.itemsize
                for n in shape:  # whole numbers of any size: a product of NumPy's would overflow
                    size *= int(n)
                total += size
    return total


def _read_safetensors(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    try:
        import safetensors
    except ImportError:
        raise FormatError(
            "reading .safetensors needs the package safetensors: pip install 'headwise[look]'"
        ) from None
    _check_size(path, 2 * path.stat().st_size)
    try:
        with safetensors.safe_open(path, framework="np") as file:
            facts: dict[str, Any] = dict(file.metadata() or {})
        tensors = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise FormatError(f"{path} is no readable .safetensors file: {error}") from None
    if "tokens" in facts:
        facts["tokens"] = _json_texts(path, facts["tokens"])
    return {name: _tensor(name, tensor) for name, tensor in tensors}, facts


def _json_texts(path: Path, text: str) -> list[str]:
    try:
        tokens = json.loads(text)
    except ValueError:
        tokens = None
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise FormatError(f"the metadata entry tokens of {path} is no JSON list of texts")
    return tokens


_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "?", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip


def _tensor(name: str, tensor: Any) -> Array:
    """Turn raw bytes into an array; bfloat16 becomes float32, which holds it exactly."""
    dtype, shape, data = tensor["dtype"], tensor["shape"], tensor["data"]
    if dtype == _BFLOAT16:
        wide = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    if dtype not in _DTYPES:
        raise FormatError(f"{name} has the safetensors dtype {dtype}, which is not supported")
    return np.frombuffer(data, _DTYPES[dtype]).reshape(shape)


def _check_size(path: Path, size: int) -> None:
    available = _available_memory()
    if available is not None and size > available:
        raise FormatError(
            f"{path} holds {size / 1e9:,.1f} GB of arrays, and {available / 1e9:,.1f} GB of memory "
            "are free: cut it into layers or shorten the text"
        )


def _available_memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
