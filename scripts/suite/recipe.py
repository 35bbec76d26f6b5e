"""How a case is written down: inputs, what is asked, and the result that the oracle gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise import reference
from headwise.conformance.cases import decode, encode

Array = Any
DIGITS = {"float64": 12, "float32": 9, "float16": 6, "bfloat16": 5}
TOLERANCES = {
    "float64": (1e-9, 1e-11),
    "float32": (2e-5, 2e-6),
    "float16": (2e-3, 2e-3),
    "bfloat16": (1.6e-2, 1.6e-2),
}
SEED, CONTRACT, REPORT = "the exercise", "headwise's contract", "public fault report"
VALUE_ERROR, EITHER = {"raises": ["ValueError"]}, {"raises": ["ValueError", "TypeError"]}
CASES: list[dict[str, Any]] = []


def numbers(seed: int, *shape: int, dtype: str = "float32") -> dict[str, Any]:
    """Describe an array of numbers with one decimal, between -2 and 2."""
    drawn = np.random.default_rng(seed).integers(-20, 21, size=shape) / 10
    return {**encode(drawn), "dtype": dtype}


def array(data: Any, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """Describe an array given by its numbers."""
    return {**encode(np.array(data, dtype=np.float64)), "dtype": dtype, **more}


def booleans(data: Any) -> dict[str, Any]:
    """Describe a boolean mask: 1 may attend."""
    return array(data, "bool")


def filled(shape: list[int], data: list[float], fill: str = "again", **more: Any) -> dict[str, Any]:
    """Describe a large array by few numbers: again and again, or the last one repeated."""
    return {"dtype": "float32", "shape": shape, "data": data, "fill": fill, **more}


def operands(
    seed: int, lead: list[int], queries: int, keys: int, dim: int = 2, **more: Any
) -> list[dict[str, Any]]:
    """Describe query, key and value."""
    kv_heads, value_dim = more.pop("kv_heads", None), more.pop("value_dim", dim)
    kv_lead = [*lead[:-1], kv_heads] if kv_heads else lead
    return [
        numbers(seed, *lead, queries, dim, **more),
        numbers(seed + 1000, *kv_lead, keys, dim, **more),
        numbers(seed + 2000, *kv_lead, keys, value_dim, **more),
    ]


def case(name: str, asks: str, function: str, inputs: dict[str, Any], **more: Any) -> None:
    """Write a case down."""
    expected = more.pop("expected")
    dtype = expected.get("dtype", "float32")
    relative, absolute = more.pop("tolerance", TOLERANCES.get(dtype, TOLERANCES["float64"]))
    taken = {"level", "source", "also", "may_refuse"}
    options = {k: describe(v) for k, v in more.items() if k not in taken and v is not None}
    CASES.append(
        {
            "name": name,
            "asks": asks,
            "level": more.get("level", "core"),
            "function": function,
            "inputs": inputs,
            "options": options,
            "expected": expected,
            "also": list(more.get("also", [])),
            "tolerance": {"relative": relative, "absolute": absolute},
            "may_refuse": more.get("may_refuse", False),
            "source": more.get("source", CONTRACT),
        }
    )


def describe(value: Any) -> Any:
    """Describe an option; NumPy arrays and lists of numbers become arrays."""
    return encode(value) if isinstance(value, np.ndarray) else value


def attends(name: str, asks: str, inputs: list[dict[str, Any]], **more: Any) -> None:
    """Write down a case of the attention call; without ``expected`` the oracle says it."""
    if "expected" not in more:
        more["expected"] = oracle(inputs, **more)
    named = dict(zip(("query", "key", "value"), inputs, strict=True))
    case(name, asks, "scaled_dot_product_attention", named, **more)


def splits_and_attends(
    name: str, asks: str, inputs: list[dict[str, Any]], num_heads: int, **more: Any
) -> None:
    """Write down a case of attention in every head, heads apart."""
    if "expected" not in more:
        kv_heads = more.get("num_kv_heads", num_heads)
        heads = (num_heads, kv_heads, kv_heads)
        apart = [encode(split(decode(x), n)) for x, n in zip(inputs, heads, strict=True)]
        more["expected"] = oracle(apart, **more)
    named = {**dict(zip(("query", "key", "value"), inputs, strict=True)), "num_heads": num_heads}
    case(name, asks, "multi_head_attention_per_head", named, **more)


def split(x: Array, num_heads: int) -> Array:
    """Split heads as the exercise says, literally."""
    *lead, length, width = x.shape
    return x.reshape(*lead, length, num_heads, width // num_heads).swapaxes(-3, -2)


def oracle(inputs: list[dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Describe what the float64 oracle gives, in the query's dtype."""
    names = ("mask", "query_offset", "scale", "bias", "softcap", "sink_logits")
    given = {k: decode(describe(v)) for k, v in options.items() if k in names and v is not None}
    output = reference.attention(*(decode(x) for x in inputs), **given).output
    dtype = inputs[0]["dtype"] if inputs[0].get("layout") != "list" else "float64"
    dtype = dtype if dtype in TOLERANCES else "float64"
    return {**encode(output, digits=DIGITS[dtype]), "dtype": dtype}
