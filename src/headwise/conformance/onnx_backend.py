"""ONNX Runtime: its Attention operator, in a model of that one node."""

from __future__ import annotations

import importlib
from typing import Any, ClassVar

import numpy as np

from headwise.conformance.backends import (
    Backend,
    Refusals,
    causal_alone,
    dense_and_rest,
    is_corner,
    offer,
    operands,
)
from headwise.conformance.cases import Array, Call, NotOfferedError

OPSET = 23


class OnnxRuntime(Backend):
    """The operator on the CPU; its mask is written out for every query."""

    packages: ClassVar[tuple[str, ...]] = ("onnxruntime", "onnx")

    def __init__(self) -> None:
        super().__init__()
        self.onnx: Any = importlib.import_module("onnx")

    def refusals(self) -> Refusals:
        """Return the runtime's own errors."""
        state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
        names = ("Fail", "InvalidArgument", "NotImplemented", "RuntimeException", "InvalidGraph")
        return tuple(getattr(state, name) for name in names)

    def run(self, call: Call) -> Any:
        """Build a model for the case and run it."""
        offer(call, "mask", "query_offset", "scale", "bias", "softcap")
        query, key, value = operands(call, np.ascontiguousarray)
        if not all(x.ndim == 4 for x in (query, key, value)):
            raise NotOfferedError("takes 4 dimensions (or 3 with heads side by side)")
        if query.dtype not in (np.float32, np.float16):
            raise NotOfferedError(f"takes no {query.dtype}")
        mask, structured = dense_and_rest(call)
        if mask is not None and mask.dtype.kind in "iu":
            raise NotOfferedError("adds whole numbers to the scores, as its standard says")
        if call.options.get("softcap") == 0:
            raise NotOfferedError("0 is no softcap, as its standard says")
        attributes: dict[str, Any] = {
            n: float(call.options[n]) for n in ("scale", "softcap") if n in call.options
        }
        if causal_alone(structured, "window, lengths and other masks"):
            corner = call.options.get("query_offset")
            if corner is not None and not is_corner(corner, "upper_left"):
                raise NotOfferedError("no query_offset but the upper left corner")
            attributes["is_causal"] = 1
        feeds = {"query": query, "key": key, "value": value}
        if mask is not None:
            feeds["mask"] = self._mask(mask, query, key)
        session = self._session(self._model(feeds, attributes))
        return session.run(None, {name: native(x) for name, x in feeds.items()})[0]

    @staticmethod
    def _mask(mask: Array, query: Array, key: Array) -> Array:
        shape = (*mask.shape[:-2], query.shape[-2], key.shape[-2])
        return np.ascontiguousarray(np.broadcast_to(mask, shape))

    def _session(self, model: Any) -> Any:
        options = self.library.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        text, providers = model.SerializeToString(), ["CPUExecutionProvider"]
        return self.library.InferenceSession(text, options, providers=providers)

    def _model(self, feeds: dict[str, Array], attributes: dict[str, Any]) -> Any:
        helper = self.onnx.helper
        arguments = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(native(x).dtype), x.shape
            )
            for name, x in feeds.items()
        ]
        shape = (*feeds["query"].shape[:-1], feeds["value"].shape[-1])
        dtype = helper.np_dtype_to_tensor_dtype(native(feeds["query"]).dtype)
        output = helper.make_tensor_value_info("output", dtype, shape)
        node = helper.make_node("Attention", list(feeds), ["output"], **attributes)
        graph = helper.make_graph([node], "attention", arguments, [output])
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10
        )


def native(x: Array) -> Array:
    """Return an array in this machine's byte order."""
    return x.astype(x.dtype.newbyteorder("="), copy=False)
