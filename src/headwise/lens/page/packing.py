"""Arrays as short texts: square roots in 8 or 16 bits, deflated, in base64.

The page's script undoes this one layer at a time (``templates/data.js``).
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np

from headwise._arrays import Array


def pack(numbers: Array, bits: int) -> dict[str, Any]:
    """Pack non-negative numbers ``(heads, ...)``: square roots as shares of each head's largest.

    With 16 bits a number keeps three digits or more down to a hundred-thousandth of the largest,
    with 8 bits two digits down to a tenth of it. What is not finite or is negative counts as 0.

    Examples
    --------
    >>> import numpy as np
    >>> from headwise.lens.page.packing import pack
    >>> pack(np.array([[0.25, 1.0, 0.0]]), 8)["tops"]
    [1.0]
    """
    flat = np.asarray(numbers, np.float64).reshape(len(numbers), -1)
    flat = np.where(np.isfinite(flat) & (flat > 0), flat, 0.0)
    tops = flat.max(axis=1, initial=0.0)
    shares = np.sqrt(flat / np.where(tops > 0, tops, 1.0)[:, None])
    return {
        "bits": bits,
        "tops": [short(top, 6) for top in tops.tolist()],
        "bytes": _deflated(np.rint(shares * (2**bits - 1)), bits),
    }


def pack_whole(numbers: Array) -> dict[str, Any]:
    """Pack whole numbers from 0 on, in as many bytes as the largest one needs."""
    bits = 16 if numbers.max(initial=0) < 2**16 else 32
    return {"bits": bits, "bytes": _deflated(numbers, bits)}


def pack_texts(texts: list[str]) -> str:
    """Pack texts as a deflated JSON list."""
    return _encoded(json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode())


def _deflated(levels: Array, bits: int) -> str:
    """Deflate whole numbers, the low bytes of all first: these hardly repeat, the high ones do."""
    octets = levels.astype(f"<u{bits // 8}").reshape(-1, 1).view(np.uint8)
    return _encoded(octets.T.tobytes())


def _encoded(octets: bytes) -> str:
    return base64.b64encode(zlib.compress(octets, 9)).decode("ascii")


def short(number: float, digits: int = 4) -> float | None:
    """Round to so many digits, so that few characters tell it; None where there is no number."""
    return float(f"{number:.{digits}g}") if np.isfinite(number) else None


def script_json(data: Any) -> str:
    """Serialise for a script element: nothing in a text can end it, nor break its lines."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text
