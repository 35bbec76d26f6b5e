"""Libraries by name: each says what it offers and brings a case into its own conventions.

A library is imported when it is loaded, in the worker. Nothing is computed here: an option goes to
the library's own, or it is not offered.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from headwise._mask_kinds import Band, Dense, Lengths
from headwise.conformance.calls import parts_of
from headwise.conformance.cases import Array, Call, NotOfferedError
from headwise.conformance.outcome import ATTENTION, Target

Refusals = tuple[type[BaseException], ...]


class Backend:
    """One library: its functions, and the errors by which it refuses."""

    packages: ClassVar[tuple[str, ...]]
    functions: ClassVar[tuple[str, ...]] = (ATTENTION,)

    def __init__(self) -> None:
        self.library: Any = importlib.import_module(self.packages[0])

    def about(self) -> str:
        """Return name and version."""
        return f"{self.packages[0]} {getattr(self.library, '__version__', '')}".strip()

    def refusals(self) -> Refusals:
        """Return the errors that say no, beside ValueError and TypeError."""
        return refusals_of(self.packages[0])

    def run(self, call: Call) -> Any:
        """Compute a case's call."""
        raise NotImplementedError


class Headwise(Backend):
    """headwise itself, with every option."""

    packages = ("headwise",)
    functions = (
        "split_heads",
        ATTENTION,
        "multi_head_attention_per_head",
        "combine_heads",
    )

    def run(self, call: Call) -> Any:
        """Call the function of that name; statistics are asked for by way of observe."""
        options = dict(call.options)
        if options.pop("statistics", False):
            return self.library.observe(*call.inputs.values(), **options).output
        return getattr(self.library.heads, call.function)(*call.inputs.values(), **options)


class Oracle(Backend):
    """headwise.reference in the precision of the query: every matrix in full, in plain NumPy."""

    packages = ("numpy",)

    def run(self, call: Call) -> Any:
        """Compute in float32, or float64 for such a query."""
        reference = importlib.import_module("headwise.reference")
        offer(call, "mask", "query_offset", "scale", "bias", "softcap", "sink_logits")
        dtype = getattr(call.inputs["query"], "dtype", np.dtype(np.float64))
        if dtype.kind not in "fV":
            raise NotOfferedError("takes floating point only")
        working = np.float64 if dtype == np.float64 else np.float32
        seen = reference.attention(*call.inputs.values(), dtype=working, **call.options)
        return seen.output.astype(dtype.newbyteorder("="))


class Torch(Backend):
    """torch.nn.functional.scaled_dot_product_attention."""

    packages = ("torch",)

    def run(self, call: Call) -> Any:
        """Give masks as attn_mask; causal alone as is_causal, or as a bias of its corner."""
        offer(call, "mask", "query_offset", "scale", "bias")
        query, key, value = operands(call, to_torch)
        options: dict[str, Any] = {"enable_gqa": grouped(call)}
        if "scale" in call.options:
            options["scale"] = call.options["scale"]
        mask, structured = dense_and_rest(call)
        if causal_alone(structured, "window, lengths and other masks"):
            if mask is not None:
                raise NotOfferedError("takes a mask or is_causal, not both")
            options.update(self._causal(call))
        elif mask is not None:
            options["attn_mask"] = to_torch(mask)
        with self.library.inference_mode():
            attend = self.library.nn.functional.scaled_dot_product_attention
            return attend(query, key, value, **options)

    def _causal(self, call: Call) -> dict[str, Any]:
        corner = call.options.get("query_offset")
        if corner is None or is_corner(corner, "upper_left"):
            return {"is_causal": True}
        if not is_corner(corner, "lower_right"):
            raise NotOfferedError("no query_offset but the two corners")
        make = importlib.import_module("torch.nn.attention.bias").causal_lower_right
        return {"attn_mask": make(call.inputs["query"].shape[-2], call.inputs["key"].shape[-2])}


class Jax(Backend):
    """jax.nn.dot_product_attention, which has its heads on the third axis."""

    packages = ("jax",)

    def run(self, call: Call) -> Any:
        """Move heads there and back; a float mask is its bias."""
        offer(call, "mask", "query_offset", "scale", "bias")
        query, key, value = operands(call, lambda x: to_jax(self._moved(x)))
        if key.shape != value.shape:
            raise NotOfferedError("value must have the key's shape")
        options = {"scale": call.options.get("scale")}
        mask, structured = dense_and_rest(call, both=True)
        for name, x in mask.items():
            options[name] = to_jax(x.reshape((1,) * (4 - x.ndim) + x.shape))
        for part in structured:
            options.update(self._structured(part, call.options.get("query_offset")))
        return self._moved(self.library.nn.dot_product_attention(query, key, value, **options))

    @staticmethod
    def _moved(x: Any) -> Any:
        if x.ndim not in {3, 4}:
            raise NotOfferedError("takes 3 or 4 dimensions")
        return x.swapaxes(-3, -2)

    def _structured(self, mask: Any, corner: Any) -> dict[str, Any]:
        if corner is not None and not is_corner(corner, "upper_left"):
            raise NotOfferedError("no query_offset but the upper left corner")
        if isinstance(mask, Band) and mask.is_causal:
            return {"is_causal": True}
        if isinstance(mask, Band) and mask.left is not None and mask.right is not None:
            return {"local_window_size": (mask.left, mask.right)}
        if isinstance(mask, Lengths) and not mask.left:
            both = {
                "key_value_seq_lengths": mask.kv_lengths,
                "query_seq_lengths": mask.query_lengths,
            }
            return {name: np.int32(x) for name, x in both.items() if x is not None}
        raise NotOfferedError(f"no mask of the kind {mask!r}")


def offer(call: Call, *names: str) -> None:
    """Refuse options beside those named."""
    for name in call.options:
        if name not in names:
            raise NotOfferedError(f"no option {name}")


def operands(call: Call, convert: Callable[[Array], Any]) -> list[Any]:
    """Return query, key and value in the library's arrays; lists are not offered."""
    arrays = [call.inputs[name] for name in ("query", "key", "value")]
    if any(isinstance(x, list) for x in arrays):
        raise NotOfferedError("takes arrays of its own, no lists")
    return [convert(x) for x in arrays]


def is_corner(query_offset: Any, corner: str) -> bool:
    """Tell whether an offset is a corner by name."""
    return isinstance(query_offset, str) and query_offset == corner


def grouped(call: Call) -> bool:
    """Tell whether key and value have fewer heads than the query."""
    query, key = call.inputs["query"], call.inputs["key"]
    return bool(min(query.ndim, key.ndim) >= 4 and query.shape[-3] != key.shape[-3])


def dense_and_rest(call: Call, both: bool = False) -> Any:
    """Return the mask's array (by ``bias`` or ``mask`` with both) and its structured parts."""
    parts = [] if call.options.get("mask") is None else parts_of(call.options["mask"])
    dense = [p.array if isinstance(p, Dense) else p for p in parts if _is_dense(p)]
    rest = [p for p in parts if not _is_dense(p)]
    found = {"bias" if x.dtype.kind in "fV" else "mask": x for x in map(np.asarray, dense)}
    if call.options.get("bias") is not None:
        if "bias" in found:
            raise NotOfferedError("takes one array to add to the scores")
        found["bias"] = call.options["bias"]
    if both:
        return found, rest
    if len(found) > 1:
        raise NotOfferedError("takes one mask, of truth values or to be added")
    return next(iter(found.values()), None), rest


def _is_dense(part: Any) -> bool:
    return isinstance(part, Dense | np.ndarray | list)


def causal_alone(structured: list[Any], others: str) -> bool:
    """Tell whether there is a causal mask; any other structured one is not offered."""
    for mask in structured:
        if not (isinstance(mask, Band) and mask.is_causal):
            raise NotOfferedError(f"no {others}: got {mask!r}")
    return bool(structured)


def to_torch(x: Array) -> Any:
    """Return a tensor of the same numbers; the memory is shared where it may be written to."""
    torch: Any = importlib.import_module("torch")
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.astype(np.float32)).to(torch.bfloat16)
    plain = x.flags.writeable and x.dtype.isnative and all(s >= 0 for s in x.strides)
    return torch.from_numpy(x if plain else x.astype(x.dtype.newbyteorder("="), order="C"))


def to_jax(x: Array) -> Any:
    """Return a JAX array of the same numbers, in float64, too."""
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.asarray(x.astype(x.dtype.newbyteorder("=")))


def converter(arrays: str) -> Callable[[Any], Any]:
    """Return what turns NumPy's arrays into a library's."""
    importlib.import_module(arrays)
    return {"torch": to_torch, "jax": to_jax}[arrays]


def refusals_of(name: str) -> Refusals:
    """Return the errors by which a library refuses, beside ValueError and TypeError."""
    known: dict[str, Refusals] = {"torch": (RuntimeError, IndexError), "jax": (AssertionError,)}
    return known.get(name, ())


def _onnxruntime() -> Backend:
    from headwise.conformance.onnx_backend import OnnxRuntime

    return OnnxRuntime()


class _Known:
    """How a backend is made, and what to install for it."""

    def __init__(self, make: Callable[[], Backend], *packages: str) -> None:
        self.make, self.packages = make, packages


BACKENDS = {
    "headwise": _Known(Headwise, "headwise"),
    "numpy": _Known(Oracle, "numpy"),
    "torch": _Known(Torch, "torch"),
    "jax": _Known(Jax, "jax"),
    "onnxruntime": _Known(_onnxruntime, "onnxruntime", "onnx"),
}


def load(name: str) -> Target:
    """Import a library and return it as a target."""
    backend = BACKENDS[name].make()
    functions = dict.fromkeys(backend.functions, backend.run)
    refusals: Refusals = (ValueError, TypeError, *backend.refusals())
    holder = backend.library.heads if name == "headwise" else None
    return Target(functions, backend.run, holder, refusals, backend.about())
