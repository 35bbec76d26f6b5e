"""What is taken as an array, what is refused and how, and how results go back."""

from __future__ import annotations

from typing import Any

import array_api_strict
import jax
import ml_dtypes
import numpy as np
import pytest
import torch

import headwise
from headwise._arrays import like, to_numpy, to_operand
from tests.support import draw, normal, refuses, same_bits

OPERANDS = ("query", "key", "value")


class Elsewhere:
    """An array on another device, as DLPack has it: (2, 0) is the first CUDA device."""

    shape = (4, 8)
    dtype = "float32"

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("an array on another device must not be read")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


class Foreign:
    """An array of another library that speaks DLPack, backed by NumPy."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.dtype = array.shape, array.dtype

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __array_namespace__(self) -> type[Foreign]:
        return Foreign

    @staticmethod
    def asarray(array: Any) -> Foreign:
        return Foreign(array)


class Unreadable(Foreign):
    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("no such dtype in NumPy")


REFUSED: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "masked array": (np.ma.ones((4, 8)), TypeError, ("masked array", ".filled(0)", "mask=")),
    "complex": (np.ones((4, 8), complex), TypeError, ("complex128", "float32 or float64")),
    "complex numbers": ([[1j]], TypeError, ("complex128", "float32 or float64")),
    "objects": (np.ones((4, 8), object), TypeError, ("object", "float32 or float64")),
    "huge numbers": ([[2**70]], TypeError, ("object", "float32 or float64")),
    "strings": ([["a", "b"]], TypeError, ("<U1", "float32 or float64")),
    "dates": (np.zeros((4, 8), "M8[s]"), TypeError, ("datetime64", "float32 or float64")),
    "structures": (np.zeros((4, 8), "f4,f4"), TypeError, ("float32 or float64",)),
    "8 bits": (
        np.ones((4, 8), ml_dtypes.float8_e4m3fn), TypeError, ("float8", ".astype(numpy.float32)"),
    ),
    "long": (np.ones((4, 8), np.longdouble), TypeError, ("float128", ".astype(numpy.float32)")),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, ("regular nested list", "different lengths")),
    "None": (None, TypeError, ("NumPy array", "DLPack", "nested lists", "NoneType")),
    "dict": ({}, TypeError, ("NumPy array", "DLPack", "nested lists", "dict")),
    "text": ("text", TypeError, ("NumPy array", "DLPack", "nested lists", "str")),
    "number": (np.float32(3), ValueError, ("at least 2 dimensions", "shape ()")),
    "vector": (np.ones(2, np.float32), ValueError, ("at least 2 dimensions", "shape (2,)")),
    "elsewhere": (Elsewhere(), TypeError, ("another device", "CPU", ".cpu()", "device_get")),
    "unreadable": (Unreadable(np.ones((4, 8))), TypeError, ("float64", "NumPy cannot read")),
    "gradient": (torch.ones(4, 8, requires_grad=True), TypeError, ("gradient", ".detach()")),
    "parameter": (torch.nn.Parameter(torch.ones(4, 8)), TypeError, ("gradient", ".detach()")),
    "torch meta": (torch.ones(4, 8, device="meta"), TypeError, ("another device", "CPU")),
    "torch complex": (torch.ones(4, 8, dtype=torch.cfloat), TypeError, ("complex64",)),
    "torch sparse": (torch.eye(4).to_sparse(), TypeError, ("Sparse", "dense")),
    "torch negated": (
        torch.ones(4, 8, dtype=torch.cfloat).conj().imag, TypeError, (".resolve_neg()",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERANDS)
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_operand_is_refused_by_name(what: str, name: str, attend: Any) -> None:
    given, kind, words = REFUSED[what]
    operands = dict.fromkeys(OPERANDS, np.ones((4, 8), np.float32))
    with refuses(kind, name, *words):
        attend(**operands | {name: given})


@pytest.mark.parametrize("argument", ["mask", "bias", "out", "query_offset", "sink_logits"])
@pytest.mark.parametrize("what", ["masked array", "elsewhere", "gradient"])
def test_other_arguments_are_refused_by_name(what: str, argument: str) -> None:
    given, kind, words = REFUSED[what]
    if (what, argument) == ("masked array", "out"):
        words = ("masked array", "out.data")
    x = np.ones((4, 8), np.float32)
    with refuses(kind, argument, *words):
        headwise.scaled_dot_product_attention(x, x, x, **{argument: given})


def test_arrays_are_viewed_and_not_copied() -> None:
    array, tensor = np.ones((4, 8)), torch.ones(4, 8)
    assert np.shares_memory(to_numpy("x", array), array)
    assert np.shares_memory(to_numpy("x", Foreign(array)), array)
    assert to_numpy("x", tensor).ctypes.data == tensor.data_ptr()
    for x in (array, tensor, array.astype(">f4"), array[::-1], Foreign(array)):
        assert to_operand("x", x).shape == (4, 8)
    assert np.shares_memory(to_operand("x", array.T), array)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "uint64", ">i4"])
def test_whole_numbers_and_truth_values_become_float64(dtype: str) -> None:
    operand = to_operand("x", np.array([[0, 1]], dtype))
    assert same_bits(operand, np.array([[0.0, 1.0]]))


def test_a_matrix_is_an_array() -> None:
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, 2.0]])
    assert type(to_numpy("x", matrix)) is np.ndarray


LIBRARIES = [np.asarray, torch.from_numpy, jax.numpy.asarray, array_api_strict.asarray, Foreign]


@pytest.mark.parametrize("give", LIBRARIES, ids=["numpy", "torch", "jax", "strict", "foreign"])
def test_results_are_of_the_querys_library(rng: np.random.Generator, give: Any) -> None:
    inputs = draw(rng, (2, 2), (20, 9), dtype=np.float32)
    want = headwise.observe(*inputs, query_offset=0)
    given = [give(x) for x in inputs]
    assert same_bits(to_numpy("x", headwise.scaled_dot_product_attention(*given)), want.output)
    seen = headwise.observe(*given, query_offset=0)
    kind = type(given[0])
    for name in ("output", "lse", "empty_rows", *seen.statistics):
        got, true = getattr(seen, name), getattr(want, name)
        assert type(got) is kind, name
        if give is jax.numpy.asarray and true.dtype == np.int64:
            true = true.astype(np.int32)  # JAX has none of 64 bits unless it is told to
        assert same_bits(to_numpy("x", got), true), name
    assert type(seen.weights()) is kind


SHORT = {
    "numpy": lambda x, name: x.astype(getattr(ml_dtypes, name, name)),
    "torch": lambda x, name: torch.from_numpy(x).to(getattr(torch, name)),
    "jax": lambda x, name: jax.numpy.asarray(x, getattr(jax.numpy, name)),
}


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("library", SHORT)
def test_16_bits_of_every_library(rng: np.random.Generator, library: str, name: str) -> None:
    inputs = draw(rng, (2, 2), (20, 9), dtype=np.float32)
    given = [SHORT[library](x, name) for x in inputs]
    want = headwise.observe(*(SHORT["numpy"](x, name) for x in inputs), query_offset=0)
    seen = headwise.observe(*given, query_offset=0)
    assert type(seen.output) is type(given[0])
    assert seen.output.dtype == given[0].dtype
    wide = seen.output.float() if library == "torch" else seen.output.astype(np.float32)
    assert same_bits(np.asarray(wide), want.output.astype(np.float32))
    assert same_bits(to_numpy("x", seen.lse), want.lse)
    heads = [headwise.combine_heads(x) for x in given]
    apart = headwise.multi_head_attention_per_head(*heads, 2)
    assert type(apart) is type(given[0])
    assert apart.dtype == given[0].dtype


def test_arrays_that_jax_traces_are_refused(rng: np.random.Generator) -> None:
    x = jax.numpy.asarray(normal(rng, 3, 4), "float32")
    for transform in (jax.jit, jax.grad):
        with refuses(TypeError, "query", "Tracer", "no numbers yet", "pure_callback"):
            transform(lambda x: headwise.scaled_dot_product_attention(x, x, x).sum())(x)


def test_masks_and_biases_of_every_library(rng: np.random.Generator) -> None:
    inputs = draw(rng, (2, 2), (20, 9), dtype=np.float32)
    mask, bias = rng.random((20, 9)) < 0.7, normal(rng, 20, 9, dtype=np.float32)
    want = headwise.scaled_dot_product_attention(*inputs, mask, bias=bias)
    joined = headwise.window() & mask
    for give in LIBRARIES:
        for m in (give(mask), headwise.window() & give(mask), give(mask.astype(np.int32))):
            options = {"mask": m, "bias": give(bias), "query_offset": 0}
            got = headwise.scaled_dot_product_attention(*inputs, **options)
            np.testing.assert_allclose(got, want, atol=1e-6)
    assert np.array_equal(joined.to_array(20, 9), mask)


def test_the_query_decides_where_libraries_are_mixed(rng: np.random.Generator) -> None:
    query, key, value = draw(rng, (2, 2), (5, 9))
    tensors = torch.from_numpy(key), Foreign(value)
    want = headwise.scaled_dot_product_attention(query, key, value)
    output = headwise.scaled_dot_product_attention(query, *tensors)
    assert type(output) is np.ndarray
    assert same_bits(output, want)
    mask = torch.from_numpy(rng.random((5, 9)) < 0.5)
    masked = headwise.scaled_dot_product_attention(query, *tensors, mask)
    assert same_bits(masked, headwise.scaled_dot_product_attention(query, key, value, mask.numpy()))


def test_like_leaves_numpy_alone() -> None:
    array = np.ones(3)
    assert like(np.ones(2), array) is array
    assert like([1.0], array) is array
