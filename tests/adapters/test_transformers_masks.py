"""Masks of models stay structured: what they show is what the library's own masks show."""

from __future__ import annotations

import inspect
import itertools
import resource
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import masking_utils

import headwise
from headwise.adapters import _transformers_masks as masks
from headwise.adapters import _transformers_readers as readers
from headwise.adapters._transformers_masks import MaskTensor, mask_function
from headwise.adapters._transformers_tensors import Deferred
from headwise.adapters.transformers import intercept
from tests.families import FAMILIES, VERSION, quiet

BATCH = 2
# query_len, kv_len, and where the first query and the first key stand: prefill, a step, some more
# of it, a static cache with room, a cache that slides, one that slides and has room
SIZES = [(7, 7, 0, 0), (1, 9, 8, 0), (3, 9, 6, 0), (3, 12, 4, 0), (4, 8, 10, 6), (1, 6, 2, 0)]
PADDINGS: dict[str, Any] = {
    "none": None,
    "whole": [[1] * 14, [1] * 14],
    "right": [[1] * 9 + [0] * 5, [1] * 5 + [0] * 9],
    "left": [[0] * 3 + [1] * 11, [1] * 14],
    "both": [[0] * 2 + [1] * 6 + [0] * 6, [0] * 14],
    "holes": [[1, 0, 1, 1, 0, 1, 1] * 2, [0, 1] * 7],
    "short": [[0, 1, 1, 1], [1] * 4],
}


def library(name: str, *arguments: Any) -> Any:
    function = getattr(masking_utils, name, None)
    if function is None:
        pytest.skip(f"this version has no {name}")
    return function(*arguments) if arguments else function


def causal() -> Any:
    return masking_utils.causal_mask_function


IDS = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3], [0] * 9 + [1] * 5])
BLOCKS = torch.tensor([[-1, 0, 0, 0, -1, -1, 1, 1, -1, 2, 2, 2, -1, -1], [3] * 5 + [-1] * 9])
FUNCTIONS: dict[str, Any] = {
    "causal": causal,
    "bidirectional": lambda: library("and_masks", library("bidirectional_mask_function")),
    "window": lambda: masking_utils.sliding_window_causal_mask_function(4),
    "window of one": lambda: masking_utils.sliding_window_causal_mask_function(1),
    "window both ways": lambda: library("sliding_window_bidirectional_mask_function", 3),
    "chunks": lambda: masking_utils.chunked_causal_mask_function(3, torch.tensor([2, 0])),
    "packed": lambda: masking_utils.and_masks(
        causal(), masking_utils.packed_sequence_mask_function(IDS)
    ),
    "blocks": lambda: masking_utils.or_masks(causal(), library("blockwise_overlay", BLOCKS)),
    "images in windows": lambda: masking_utils.and_masks(
        masking_utils.or_masks(causal(), library("blockwise_overlay", BLOCKS)),
        masking_utils.sliding_window_overlay(3),
    ),
    "padding": lambda: masking_utils.padding_mask_function(
        torch.tensor(PADDINGS["left"], dtype=torch.bool)
    ),
}


def asked(sizes: tuple[int, int, int, int], function: Any, real: Any = None) -> dict[str, Any]:
    """Return what this version of the library asks a mask function with."""
    query_len, kv_len, q_offset, kv_offset = sizes
    places: dict[str, Any] = {"q_length": query_len, "q_offset": q_offset}
    if "cache_position" in inspect.signature(masking_utils.sdpa_mask).parameters:
        places = {"cache_position": q_offset + torch.arange(query_len)}
    real = None if real is None else torch.tensor(real, dtype=torch.bool)
    sizes_of_keys = {"batch_size": BATCH, "kv_length": kv_len, "kv_offset": kv_offset}
    return {**sizes_of_keys, **places, "mask_function": function, "attention_mask": real}


def shown(made: MaskTensor) -> Any:
    """Return the structured mask in full."""
    query_len, kv_len = made.shape[-2:]
    offset = made.visible.query_offset or 0
    array = made.visible.mask.to_array(query_len, kv_len, offset)
    return np.broadcast_to(array, (BATCH, 1, query_len, kv_len))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("padding", PADDINGS)
def test_what_is_read_is_what_the_library_shows(name: str, padding: str) -> None:
    for sizes in SIZES:
        arguments = asked(sizes, FUNCTIONS[name](), PADDINGS[padding])
        want = masking_utils.sdpa_mask(**arguments, allow_is_causal_skip=False)
        made = mask_function(**arguments)
        assert made is not None
        assert np.array_equal(shown(made), want.expand(BATCH, 1, *want.shape[-2:]))
        assert "boolean" not in repr(made.visible.mask) or padding == "holes"
        eager = torch.zeros(want.shape).masked_fill(~want, torch.finfo(torch.float32).min)
        assert torch.equal(made + 0, eager)


@pytest.mark.parametrize("inner", ["causal", "window", "chunks"])
def test_positions_that_begin_anew(inner: str) -> None:
    places = torch.tensor([[0, 1, 2, 0, 1, 2, 3], [5, 6, 0, 1, 2, 3, 4]])
    ids = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1]])
    remapped = library("remap_positions_for_packed_sequence", FUNCTIONS[inner](), places)
    apart = masking_utils.packed_sequence_mask_function(ids)
    arguments = asked((7, 7, 0, 0), masking_utils.and_masks(remapped, apart))
    want = masking_utils.sdpa_mask(**arguments, allow_is_causal_skip=False)
    made = mask_function(**arguments)
    assert made is not None
    assert np.array_equal(shown(made), want)
    assert "boolean" not in repr(made.visible.mask)
    # alone it would show keys of other sequences, and positions may be others than counted
    for function in (remapped, masking_utils.and_masks(remapped, FUNCTIONS["packed"]())):
        arguments = asked((7, 7, 0, 0), function)
        want = masking_utils.sdpa_mask(**arguments, allow_is_causal_skip=False)
        made = mask_function(**arguments)
        assert made is not None
        assert np.array_equal(shown(made), want)
        assert "boolean" in repr(made.visible.mask)


def odd_keys(batch: Any, head: Any, query: Any, key: Any) -> Any:
    return key % 2 == 1


@pytest.mark.parametrize("function", [odd_keys, lambda *_: torch.tensor(True)], ids=["odd", "all"])
@pytest.mark.parametrize("padding", ["none", "left"])
def test_unknown_functions_are_asked_for_every_pair(function: Any, padding: str) -> None:
    for sizes in SIZES:
        both = masking_utils.and_masks(causal(), function)
        arguments = asked(sizes, both, PADDINGS[padding])
        want = masking_utils.sdpa_mask(**arguments, allow_is_causal_skip=False)
        made = mask_function(**arguments)
        assert made is not None
        assert np.array_equal(shown(made), want)


def test_all_parts_of_this_version_are_read() -> None:
    names = {reader.__name__ for reader in readers._READERS.values()}
    always = {"_causal", "_window", "_chunks", "_padding", "_packed", "_all_of", "_any_of"}
    newer = {
        "_everything": "bidirectional_mask_function",
        "_window_both_ways": "sliding_window_bidirectional_overlay",
        "_blocks": "blockwise_overlay",
        "_remapped": "remap_positions_for_packed_sequence",
    }
    here = {name for name, part in newer.items() if hasattr(masking_utils, part)}
    assert names == always | here
    assert here == {*newer} or VERSION < (5, 24)


def test_a_part_whose_meaning_changes_is_no_longer_read() -> None:
    def sliding_window_overlay(sliding_window: int) -> Any:
        return lambda b, h, q_idx, kv_idx: kv_idx >= q_idx - sliding_window  # one key more

    changed = SimpleNamespace(**vars(masking_utils))
    changed.sliding_window_overlay = sliding_window_overlay
    known = dict(readers._READERS)
    try:
        readers.learn(changed)
        assert len(readers._READERS) < len(known)
        assert readers._window not in readers._READERS.values()
        function = sliding_window_overlay(3)
        with pytest.raises(readers.Unread):
            readers.read(function, readers.Places(np.arange(5), np.arange(5)))
        made = mask_function(**asked((7, 7, 0, 0), function))
        assert made is not None
        assert np.array_equal(shown(made)[0, 0], headwise.window(3).to_array(7, 7))
    finally:
        readers._READERS.clear()
        readers._READERS.update(known)


def test_nothing_is_hidden_nothing_is_given() -> None:
    function = FUNCTIONS["bidirectional"]()
    for sizes, padding in itertools.product(SIZES[:2], ("none", "whole")):
        arguments = asked(sizes, function, PADDINGS[padding])
        assert mask_function(**arguments, allow_is_bidirectional_skip=True) is None
        assert mask_function(**arguments) is not None
    padded = asked((7, 7, 0, 0), function, PADDINGS["left"])
    assert mask_function(**padded, allow_is_bidirectional_skip=True) is not None


def test_real_tokens() -> None:
    prefill = mask_function(**asked((7, 7, 0, 0), causal(), PADDINGS["left"])).visible  # type: ignore[union-attr]
    assert prefill.real_keys is not None
    assert prefill.real_keys.sum(axis=1).tolist() == [4, 7]
    assert np.array_equal(prefill.real_queries, prefill.real_keys)
    step = mask_function(**asked((1, 9, 8, 0), causal(), PADDINGS["left"])).visible  # type: ignore[union-attr]
    assert step.real_queries is None
    assert step.query_offset == 8
    empty = mask_function(**asked((3, 12, 4, 0), causal())).visible  # type: ignore[union-attr]
    assert empty.real_keys is not None
    assert empty.real_keys.sum() == 7  # of a static cache of 12


@pytest.fixture
def touched() -> MaskTensor:
    made = mask_function(**asked((7, 7, 0, 0), causal(), PADDINGS["left"]))
    assert made is not None
    return made


def test_a_mask_travels_as_a_tensor(touched: MaskTensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deferred, "dense", lambda self: pytest.fail("made dense"))
    assert isinstance(touched, torch.Tensor)
    assert (touched.shape, touched.ndim, touched.dtype) == ((2, 1, 7, 7), 4, torch.float32)
    assert touched.to("cpu") is touched
    assert touched.to(torch.float32) is touched
    assert touched.contiguous() is touched
    assert not touched.requires_grad
    assert "(2, 1, 7, 7)" in repr(touched)
    assert touched.intact


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: torch.cat([x, x]),
        lambda x: torch.where(x == 0, 1, 2),
        lambda x: x.sum().item(),
        lambda x: x.tolist(),
        lambda x: x.to(torch.float64),
    ],
)
def test_a_mask_that_is_read_stays_structured(touched: MaskTensor, use: Any) -> None:
    use(touched)
    assert touched.intact


def write(x: Any) -> None:
    x[:, :, :, 0] = 5


@pytest.mark.parametrize(
    "use",
    [
        write,
        lambda x: x.mul_(2),
        lambda x: x[:, :, 1:].zero_(),
        lambda x: x.numpy().fill(1),
        np.from_dlpack,
        lambda x: torch.add(x, 1, out=x.view(2, 1, 7, 7)),
        lambda x: x.data_ptr(),
    ],
)
def test_a_mask_that_may_be_written_to_does_not(touched: MaskTensor, use: Any) -> None:
    before = (touched + 0).clone()
    use(touched)
    assert not touched.intact
    again = mask_function(**asked((7, 7, 0, 0), causal(), PADDINGS["left"]))
    assert again is not None
    assert torch.equal(before, again + 0)


def test_what_was_written_to_a_mask_holds() -> None:
    """A model that hides something more in its mask is taken at its word."""
    from headwise.adapters._transformers_attention import attention_function

    x = torch.randn(2, 1, 7, 4, generator=torch.Generator().manual_seed(0))
    for function in (causal(), masking_utils.sliding_window_causal_mask_function(3)):
        made = mask_function(**asked((7, 7, 0, 0), function))
        assert made is not None
        visible = shown(made).copy()
        visible[..., 2:, 1] = False
        made[..., 2:, 1] = torch.finfo(torch.float32).min
        got, _ = attention_function(torch.nn.Identity(), x, x, x, made)
        want = headwise.scaled_dot_product_attention(x, x, x, visible)
        torch.testing.assert_close(got.transpose(1, 2), want)


def test_a_long_prompt_makes_no_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """32,768 tokens, padded, and with a window: n × n booleans alone would be a GiB."""
    monkeypatch.setattr(masking_utils, "sdpa_mask", lambda **_: pytest.fail("made dense"))
    monkeypatch.setattr(Deferred, "dense", lambda self: pytest.fail("made dense"))
    monkeypatch.setattr(masks, "_ask", lambda _: pytest.fail("made dense"))
    small = {"num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8}
    family = FAMILIES["gemma3"]
    model = type(family)(family.model, family.config, {**family.settings, **small}).build(
        "headwise", torch.float32
    )
    length = 32768
    real = torch.ones(1, length, dtype=torch.int64)
    real[:, :100] = 0
    calls = []

    def look(call: Any) -> Any:
        calls.append(call.mask)
        return call.attend(), None

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.no_grad(), quiet(), intercept(look):
        model.model(input_ids=torch.full((1, length), 5), attention_mask=real)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert calls == [
        headwise.window(3) & headwise.causal() & headwise.lengths([length - 100], left=True),
        headwise.causal() & headwise.lengths([length - 100], left=True),
    ]
    assert grown < 300 * 1024  # KiB
