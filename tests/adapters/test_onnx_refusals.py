"""What ONNX's operators cannot be asked for, and what the error says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise.adapters.onnx import attention, rotary_embedding
from tests.support import refuses, same_bits

Q, K = np.ones((2, 4, 3, 8)), np.ones((2, 2, 5, 8))
FLAT = np.ones((2, 3, 32))


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        ((Q, K, K), {"opset": 22}, ("opset", "23", "22")),
        ((Q, K, K), {"opset": 29}, ("opset", "28", "29")),
        ((Q, K, K), {"opset": 24, "right_window_size": 0}, ("right_window_size", "opset 25", "24")),
        ((Q, K, K), {"opset": 23, "nonpad_kv_seqlen": [1, 2]}, ("nonpad_kv_seqlen", "opset 24")),
        ((Q, K, K), {"left_window_size": -2}, ("left_window_size", "-1", "-2")),
        ((Q, K, K), {"is_causal": 2}, ("is_causal", "2")),
        ((Q, K, K), {"qk_matmul_output_mode": 4}, ("qk_matmul_output_mode", "4")),
        ((Q, K, K), {"softmax_precision": 7}, ("softmax_precision", "1, 10, 11, 16", "7")),
        ((Q, K, K), {"softcap": -1.0}, ("softcap", "-1.0")),
        ((Q, K, K), {"softcap": np.nan}, ("softcap", "nan")),
        ((Q, K, K), {"scale": np.inf}, ("scale", "inf")),
        ((Q, K, K), {"q_num_heads": 4}, ("q_num_heads", "3 dimensions", "4 heads", "leave it out")),
        ((Q, K, K), {"opset": 24, "kv_num_heads": 4}, ("kv_num_heads", "2 heads", "leave it out")),
        ((FLAT, FLAT, FLAT), {"q_num_heads": 4}, ("K", "kv_num_heads", "None")),
        ((FLAT, FLAT, FLAT), {"kv_num_heads": 4}, ("Q", "q_num_heads", "None")),
        ((FLAT, FLAT, FLAT), {"q_num_heads": 5, "kv_num_heads": 4}, ("q_num_heads", "32", "5")),
        ((FLAT, FLAT, FLAT), {"q_num_heads": 0, "kv_num_heads": 4}, ("q_num_heads", "0")),
        ((FLAT, K, K), {}, ("Q, K and V", "(2, 3, 32)", "(2, 2, 5, 8)")),
        ((Q[0, 0], K[0, 0], K[0, 0]), {}, ("Q, K and V", "4 dimensions", "(3, 8)")),
        ((Q, K[:1], K[:1]), {}, ("batch", "(1, 2, 5, 8)")),
        ((Q[:, :3], K, K), {}, ("num_heads", "multiple", "3", "2")),
        ((Q, K, K[:, :, :4]), {}, ("K and V", "same length", "5 and 4")),
        ((Q, K, K[:, :, :4], np.ones((3, 4), bool)), {}, ("K and V", "same length", "5 and 4")),
        ((Q, K, K, None, K, K[:, :, :2]), {}, ("past_key and past_value", "same length", "(5, 2)")),
        ((Q, K, K, None, K), {}, ("past_value is missing",)),
        ((Q, K, K, None, K[:, :1], K), {}, ("past_key", "(2, 2, past_len, 8)", "(2, 1, 5, 8)")),
        ((Q, K, K, None, K, K, [1, 2]), {}, ("nonpad_kv_seqlen", "past_key")),
        ((Q, K, K, None, K[:, :, :0], K[:, :, :0], [1, 2]), {}, ("nonpad_kv_seqlen", "past_key")),
        ((Q, K, K), {"nonpad_kv_seqlen": [1]}, ("nonpad_kv_seqlen", "(batch,) = (2,)", "(1,)")),
        ((Q, K, K), {"nonpad_kv_seqlen": [1, 6]}, ("nonpad_kv_seqlen", "kv_len 5", "[1, 6]")),
        ((Q, K, K), {"nonpad_kv_seqlen": [-1, 2]}, ("nonpad_kv_seqlen", "[-1, 2]")),
        ((Q, K, K), {"nonpad_kv_seqlen": [1.0, 2.0]}, ("nonpad_kv_seqlen", "float64")),
        ((Q, K, K, np.ones(4, bool), None, None, [1, 5]), {}, ("attn_mask covers 4", "[1, 5]")),
        ((Q, K, K, np.ones((3, 6), bool)), {}, ("attn_mask", "(2, 4, 3, 5)", "(3, 6)")),
        ((Q, K, K, np.ones((3, 4), bool)), {"opset": 23}, ("attn_mask", "(2, 4, 3, 5)", "(3, 4)")),
        ((Q, K, K, np.ones((2, 3, 5), bool)), {}, ("attn_mask", "(2, 4, 3, 5)", "(2, 3, 5)")),
        ((Q, K, K, np.True_), {}, ("attn_mask", "()")),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_refused(
    inputs: tuple[Any, ...], options: dict[str, Any], words: tuple[str, ...]
) -> None:
    with refuses(ValueError, *words):
        attention(*inputs, **options)


@pytest.mark.parametrize(
    ("inputs", "options", "words"),
    [
        ((Q, K.astype("f4"), K), {}, ("K", "float32", "Q", "float64")),
        ((Q, K, K, None, K.astype("f4"), K), {}, ("past_key", "float32", "K", "float64")),
        ((Q, K, K, np.ones((3, 5), int)), {}, ("attn_mask", "int64", "bool", "attn_mask != 0")),
        ((Q, K, K), {"left_window_size": 1.5}, ("left_window_size", "1.5")),
        ((Q, K, K), {"opset": "25"}, ("opset", "'25'")),
        ((Q, K, K), {"softcap": "2"}, ("softcap", "'2'")),
        ((Q, K, K), {"scale": "2"}, ("scale", "'2'")),
        ((Q, "K", K), {}, ("K", "str")),
        ((Q * 1j, K, K), {}, ("Q", "complex128")),
        ((Q, K, K), {"is_causal": 1, "dropout": 0.1}, ("dropout",)),
    ],
)  # fmt: skip
def test_other_types_are_refused(
    inputs: tuple[Any, ...], options: dict[str, Any], words: tuple[str, ...]
) -> None:
    with refuses(TypeError, *words):
        attention(*inputs, **options)


@pytest.mark.parametrize("opset", [23, 24])
def test_numbers_of_heads_that_agree_were_allowed_before_opset_25(opset: int) -> None:
    got = attention(Q, K, K, opset=opset, q_num_heads=4, kv_num_heads=2)
    assert same_bits(got.Y, attention(Q, K, K).Y)
    with refuses(ValueError, "q_num_heads", "leave it out"):
        attention(Q, K, K, opset=25, q_num_heads=4, kv_num_heads=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"opset": 22}, ("opset", "RotaryEmbedding", "22")),
        ({"interleaved": 2}, ("interleaved", "2")),
        ({"num_heads": 3}, ("num_heads", "4", "3")),
        ({"rotary_embedding_dim": 6}, ("cos", "(2, 3, 3)")),
        ({"position_ids": [[0, 1, 5]] * 2}, ("cos", "with position_ids")),
    ],
)
def test_rotary_embedding_refuses(options: dict[str, Any], words: tuple[str, ...]) -> None:
    angles = np.ones((2, 3, 4))
    with refuses(ValueError, *words):
        rotary_embedding(Q, angles, angles, **options)
