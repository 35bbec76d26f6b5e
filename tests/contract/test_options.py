"""Every option bites: it changes the result, or it raises. None is accepted and ignored."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import headwise
from headwise._prepare import Options

rng = np.random.default_rng(5)
Q, K, V = (rng.normal(size=(2, 4, 9, 8)) for _ in range(3))
FLAT = [rng.normal(size=(2, 9, 32)) for _ in range(3)]
WEIGHTS = [rng.normal(size=(32, 32)) for _ in range(4)]
OTHER_OFFSET = {"mask": headwise.causal(), "query_offset": 3}

# For each option: arguments that set it, and the arguments to compare with.
BITES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "mask": ({"mask": headwise.causal()}, {}),
    "query_offset": (OTHER_OFFSET, {"mask": headwise.causal()}),
    "scale": ({"scale": 2.0}, {}),
    "bias": ({"bias": rng.normal(size=(9, 9))}, {}),
    "softcap": ({"softcap": 0.5}, {}),
    "sink_logits": ({"sink_logits": [0.0, 1.0, 2.0, 3.0]}, {}),
}
REFUSED = {
    "num_threads": 0,
    "out": np.zeros(3),
    "statistics": "nothing_of_that_name",
    "num_kv_heads": 3,
}


def plain(**options: Any) -> Any:
    return headwise.scaled_dot_product_attention(Q, K, V, **options)


def observed(**options: Any) -> Any:
    return headwise.observe(Q, K, V, **options).output


def per_head(**options: Any) -> Any:
    return headwise.multi_head_attention_per_head(*FLAT, 4, **options)


def combined(**options: Any) -> Any:
    return headwise.multi_head_attention(*FLAT, 4, **options)


def layer(**options: Any) -> Any:
    return headwise.MultiHeadAttention(*WEIGHTS, num_heads=4)(*FLAT, **options)


def layer_observed(**options: Any) -> Any:
    return headwise.MultiHeadAttention(*WEIGHTS, num_heads=4).observe(*FLAT, **options).output


CALLS = {
    plain: headwise.scaled_dot_product_attention,
    observed: headwise.observe,
    per_head: headwise.multi_head_attention_per_head,
    combined: headwise.multi_head_attention,
    layer: headwise.MultiHeadAttention.__call__,
    layer_observed: headwise.MultiHeadAttention.observe,
}


def options_of(function: Any) -> list[str]:
    """Return the names of a call's options, those that calls share included."""
    names = set(inspect.signature(function).parameters) - {"self", "query", "key", "value"}
    if "options" in names:
        names |= set(Options.__annotations__)
    return sorted(names - {"options", "num_heads"})


CASES = [
    pytest.param(call, name, id=f"{call.__name__}-{name}")
    for call, function in CALLS.items()
    for name in options_of(function)
]


@pytest.mark.parametrize(("call", "option"), CASES)
def test_option_bites(call: Any, option: str) -> None:
    if option in BITES:
        given, without = BITES[option]
        assert not np.array_equal(call(**given), call(**without))
    else:
        with pytest.raises((TypeError, ValueError), match=option.removeprefix("num_kv_")):
            call(**{option: REFUSED[option]})


def test_out_and_threads_and_statistics_do_something() -> None:
    out = np.zeros(Q.shape)
    assert plain(out=out) is out
    assert out.any()
    seen = headwise.observe(Q, K, V, statistics="entropy")
    assert seen.statistics == ("entropy",)
    np.testing.assert_array_equal(plain(num_threads=1), plain(num_threads=2))


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_unknown_options_are_refused(call: Any) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        call(dropout=0.1)
