"""Structured masks in calls: the same as arrays, as calls apart, and as unpadded ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headwise
from headwise import causal, documents, lengths, prefix, scaled_dot_product_attention, window
from tests.support import check_statistics, draw, refuses, same_bits, ulp

pytestmark = pytest.mark.usefixtures("instruction_set")
BATCH, HEADS, KV_LEN = 3, 2, 300
OFFSET = 280


def masks(rng: np.random.Generator, queries: int) -> dict[str, Any]:
    """Return masks of every kind for ``queries`` queries of a batch."""
    dense = rng.random((BATCH, 1, queries, KV_LEN)) < 0.5
    ids = np.sort(rng.integers(0, 5, size=(BATCH, KV_LEN)))
    mixed = rng.integers(0, 3, size=KV_LEN)
    return {
        "causal": causal(),
        "window": window(20, 3),
        "lengths": lengths([0, 7, KV_LEN], [queries, 2, 1]),
        "left lengths": lengths([0, 7, KV_LEN], [queries, 2, 1], left=True),
        "documents": documents(ids[:, -queries:], ids),
        "documents that come back": documents(mixed[-queries:], mixed),
        "prefix": prefix([0, 5, 290]),
        "causal after a prefix": causal() | prefix([0, 5, 290]),
        "a far prefix": window(3, 0) | prefix(4),
        "and arrays": causal() & dense,
        "or arrays": window(3, 0) | dense,
        "everything": ((causal() | prefix(9)) & documents(mixed[-queries:], mixed)) | window(1, 1),
        "and padding": ((causal() | prefix(9)) & dense) & lengths([5, 100, 300]),
    }


@pytest.mark.parametrize("what", masks(np.random.default_rng(0), 3))
def test_a_mask_has_the_bits_of_its_array(
    rng: np.random.Generator, dtype: Any, queries: int, what: str
) -> None:
    inputs = draw(rng, (BATCH, HEADS), (queries, KV_LEN), (16, 8), dtype=dtype)
    mask = masks(rng, queries)[what]
    seen = headwise.observe(*inputs, mask, query_offset=OFFSET)
    want = headwise.observe(*inputs, mask.to_array(queries, KV_LEN, OFFSET), query_offset=OFFSET)
    assert same_bits(seen.output, want.output)
    for name in ("lse", *seen.statistics):
        assert same_bits(getattr(seen, name), getattr(want, name)), name
    assert same_bits(seen.weights(), want.weights())
    plain = scaled_dot_product_attention(*inputs, mask, query_offset=OFFSET)
    assert same_bits(plain, seen.output)
    check_statistics(seen, headwise.reference.attention(*inputs, mask, query_offset=OFFSET))


@pytest.mark.parametrize("what", masks(np.random.default_rng(0), 3))
@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_what_a_mask_hides_never_reaches_an_output(
    *, rng: np.random.Generator, queries: int, what: str, strange: float, attend: Any
) -> None:
    query, key, value = draw(rng, (BATCH, HEADS), (queries, KV_LEN), dtype=np.float32)
    mask = masks(rng, queries)[what]
    clean = attend(query, key, value, mask, query_offset=OFFSET)
    seen = np.broadcast_to(
        mask.to_array(queries, KV_LEN, OFFSET), (BATCH, HEADS, queries, KV_LEN)
    ).any(axis=-2)
    key[~seen], value[~seen] = strange, strange
    assert same_bits(attend(query, key, value, mask, query_offset=OFFSET), clean)


def test_documents_are_calls_apart(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    sizes = [40, 1, 300, 17]
    ids = np.repeat([4, 2, 9, 0], sizes)
    inputs = draw(rng, (1, 2), (len(ids), len(ids)), dtype=dtype)
    packed = attend(*inputs, causal() & documents(ids))
    first = 0
    for size in sizes:
        alone = attend(*(x[..., first : first + size, :] for x in inputs), causal())
        got = packed[..., first : first + size, :]
        np.testing.assert_allclose(got, alone, rtol=0, atol=8 * ulp(dtype))
        first += size


@pytest.mark.parametrize("left", [False, True])
def test_padding_changes_nothing(
    rng: np.random.Generator, dtype: Any, left: bool, attend: Any
) -> None:
    real, length = [40, 1, 25], 40
    inputs = draw(rng, (3, 4), (length, length), dtype=dtype, kv_heads=2)
    mask = causal() & lengths(real, real, left=left)
    padded = attend(*inputs, mask)
    for item, n in enumerate(real):
        part = slice(length - n, length) if left else slice(0, n)
        alone = attend(*(x[item : item + 1, :, part] for x in inputs), causal())
        np.testing.assert_allclose(padded[item, :, part], alone[0], rtol=0, atol=8 * ulp(dtype))
        rest = np.delete(padded[item], range(length)[part], axis=-2)
        assert not rest.any()
    if not left:  # then keys and queries lie where they do alone
        assert same_bits(padded[2, :, :25], attend(*(x[2:3, :, :25] for x in inputs), causal())[0])


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("corner", ["upper_left", "lower_right"])
@pytest.mark.parametrize("of_queries", [False, True])
def test_corners_of_real_tokens(
    *, rng: np.random.Generator, dtype: Any, left: bool, corner: str, of_queries: bool, attend: Any
) -> None:
    keys, queries, kv_len, query_len = [30, 12, 20], [20, 3, 11], 30, 20
    inputs = draw(rng, (3, 2), (query_len, kv_len), dtype=dtype)
    padding = lengths(keys, queries if of_queries else None, left=left)
    padded = attend(*inputs, causal() & padding, query_offset=corner)
    for item, (n, m) in enumerate(zip(keys, queries, strict=True)):
        count = m if of_queries else query_len
        rows = slice(query_len - count, query_len) if left else slice(0, count)
        columns = slice(kv_len - n, kv_len) if left else slice(0, n)
        query, key, value = (x[item] for x in inputs)
        alone = attend(
            query[:, rows], key[:, columns], value[:, columns], causal(), query_offset=corner
        )
        np.testing.assert_allclose(padded[item, :, rows], alone, rtol=0, atol=8 * ulp(dtype))


def test_corners_need_one_padding_that_holds_everywhere(attend: Any) -> None:
    x = np.zeros((2, 1, 4, 4))
    one, other = lengths([1, 2]), lengths([3, 4])
    for mask in (causal() & one & other, (causal() & one) | prefix(2)):
        attend(x, x, x, mask)
        with refuses(ValueError, "query_offset", "one padding mask", "&", "numbers"):
            attend(x, x, x, mask, query_offset="lower_right")


def test_a_batch_of_decoding_steps(rng: np.random.Generator, dtype: Any, attend: Any) -> None:
    """Each item has its own number of keys, and its query is the last one."""
    real = [300, 1, 77]
    inputs = draw(rng, (3, 4), (1, 300), dtype=dtype, kv_heads=2)
    got = attend(*inputs, window(30, 0) & lengths(real), query_offset="lower_right")
    for item, n in enumerate(real):
        query, key, value = (x[item : item + 1] for x in inputs)
        key, value = key[:, :, max(0, n - 31) : n], value[:, :, max(0, n - 31) : n]
        want = attend(query, key, value)
        np.testing.assert_allclose(got[item], want[0], rtol=0, atol=8 * ulp(dtype))


def test_masks_of_further_dimensions(rng: np.random.Generator, attend: Any) -> None:
    """What there is one of for each batch item broadcasts as the items do."""
    inputs = draw(rng, (2, 3, 2), (20, 30))
    real = rng.integers(0, 31, size=(2, 3))
    ids = rng.integers(0, 3, size=(3, 30))
    whole = attend(
        *inputs, lengths(real) & documents(ids[:, :20], ids) | prefix(real[:1]), query_offset=0
    )
    for a in range(2):
        for b in range(3):
            mask = lengths(real[a, b]) & documents(ids[b, :20], ids[b]) | prefix(real[0, b])
            item = attend(*(x[a, b] for x in inputs), mask, query_offset=0)
            assert same_bits(whole[a, b], item)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_no_bit_under_masks(
    rng: np.random.Generator, queries: int, threads: int
) -> None:
    inputs = draw(rng, (BATCH, HEADS), (queries, KV_LEN), (64, 64), dtype=np.float32)
    for mask in masks(rng, queries).values():
        options = {"mask": mask, "query_offset": OFFSET}
        one = scaled_dot_product_attention(*inputs, **options, num_threads=1)
        assert same_bits(scaled_dot_product_attention(*inputs, **options, num_threads=threads), one)


def test_masks_with_ids_in_any_layout(rng: np.random.Generator) -> None:
    """Ids and lengths are read once, whatever their dtype and strides."""
    inputs, ids = draw(rng, (1, 1), (40, 40)), rng.integers(0, 3, size=(2, 40))
    want = scaled_dot_product_attention(*inputs, documents(ids[0]))
    views = [ids.astype(np.uint8)[0], ids.astype(">i4")[0], np.repeat(ids[0], 2)[::2], [*ids[0]]]
    for view in views:
        assert same_bits(scaled_dot_product_attention(*inputs, documents(view)), want)


def test_a_mask_of_each_head(rng: np.random.Generator, queries: int, attend: Any) -> None:
    inputs = draw(rng, (2, 4), (queries, 70), kv_heads=2)
    dense = rng.random((4, queries, 70)) < 0.5
    whole = attend(*inputs, dense | prefix(2), query_offset=0)
    keys, values = (np.repeat(x, 2, axis=1) for x in inputs[1:])
    for h in range(4):
        alone = attend(inputs[0][:, h], keys[:, h], values[:, h], dense[h] | prefix(2),
                       query_offset=0)  # fmt: skip
        np.testing.assert_allclose(whole[:, h], alone, rtol=0, atol=1e-14)


def test_a_mask_of_everything_changes_no_bit(rng: np.random.Generator) -> None:

    inputs = draw(rng, (1, 2), (40, 300))
    want = scaled_dot_product_attention(*inputs)
    everything = [window(), lengths(300), prefix(300), documents(np.zeros(40, int), [0] * 300)]
    everything += [causal() | prefix(300), window() & np.ones((40, 300), bool)]
    for mask in everything:
        assert same_bits(scaled_dot_product_attention(*inputs, mask, query_offset=0), want)
