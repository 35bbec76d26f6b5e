"""Memory grows with the lengths and not with their product, and nothing is copied whole."""

from __future__ import annotations

import pytest

from tests.support import run_script

BEGIN = """
import resource
import numpy as np
import headwise

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)
"""

# What a call adds to the highest memory of the process, beyond its inputs and its output.
ATTEND = """
def extra(query_len, kv_len, call):
    q, k, v = (normal(1, 1, n, 64) for n in (query_len, kv_len, kv_len))
    out = np.zeros_like(q)
    before = peak()
    call(q, k, v, out)
    return peak() - before

def attend(q, k, v, out):
    headwise.scaled_dot_product_attention(q, k, v, headwise.causal(), out=out, query_offset=0)

def observe(q, k, v, out):
    headwise.observe(q, k, v, headwise.causal(), query_offset=0)

def everything(q, k, v, out):
    headwise.observe(q, k, v, headwise.causal(), query_offset=0, statistics="all")

def few(q, k, v, out):
    headwise.scaled_dot_product_attention(q, k, v, out=out)
"""

GROUPED = """
q, k, v = normal(1, 16, 64, 64), normal(1, 1, 65536, 64), normal(1, 1, 65536, 64)
before = peak()
headwise.scaled_dot_product_attention(q, k, v)
print(peak() - before)
"""

STRIDED = """
k, v = normal(1, 65536, 8, 64)[..., ::-1], normal(1, 65536, 8, 64).astype(">f4")
q = normal(1, 64, 8, 64)
before = peak()
headwise.scaled_dot_product_attention(*(x.swapaxes(1, 2) for x in (q, k, v)))
print(peak() - before)
"""

MIB = 1 << 20


def extra(call: str) -> int:
    return int(run_script(BEGIN + ATTEND + f"print(extra({call}))"))


def test_a_long_causal_call_stays_below_64_mib() -> None:
    assert extra("16384, 16384, attend") < 64 * MIB


def test_a_long_observed_call_stays_below_64_mib() -> None:
    output, rows = 16384 * 64 * 4, 16384 * 17 * 8
    assert extra("16384, 16384, observe") < 64 * MIB + output + rows


def test_a_long_call_with_everything_stays_below_64_mib() -> None:
    output, rows = 16384 * 64 * 4, 16384 * 17 * 8
    assert extra("16384, 16384, everything") < 64 * MIB + output + rows


@pytest.mark.parametrize(
    ("short", "long"),
    [("2048, 2048, attend", "12288, 12288, attend"), ("1, 8192, few", "1, 524288, few")],
)
def test_scratch_does_not_grow_with_the_length(short: str, long: str) -> None:
    assert extra(long) < extra(short) + 4 * MIB


def test_18_grouped_heads_are_never_expanded() -> None:
    one_copy_of_the_keys = 65536 * 64 * 4
    assert int(run_script(BEGIN + GROUPED)) < one_copy_of_the_keys


def test_strided_keys_are_never_copied_whole() -> None:
    one_copy_of_the_keys = 65536 * 8 * 64 * 4
    assert int(run_script(BEGIN + STRIDED)) < one_copy_of_the_keys / 4
