"""The peers: each prepares a case's inputs once and gives back a call that computes the output.

Libraries are imported when a peer is made, in its worker, so that none needs to be installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from benchmarks.cases import Case
from benchmarks.inputs import Array, Inputs

Run = Callable[[], Array]


class NotOfferedError(Exception):
    """The peer cannot compute this case; the text says why."""


class Peer:
    """One way to compute attention, with ``threads`` threads.

    ``forms_matrix`` says that it holds a head's whole matrix of weights, so that memory bounds the
    length.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    forms_matrix: ClassVar[bool] = False

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.library: Any = importlib.import_module(self.module)
        self._made: tuple[Case, Any] | None = None

    def describe(self) -> str:
        """Return the version, and settings that matter."""
        return f"{self.name} {str(self.library.__version__).split('-')[0]}"

    def prepare(self, inputs: Inputs) -> Run:
        """Return a call without arguments that computes the output, ``(batch, heads, ...)``."""
        raise NotImplementedError

    def once(self, inputs: Inputs, make: Callable[[], Any]) -> Any:
        """Return what ``make`` makes, the same for all copies of a case's inputs."""
        if self._made is None or self._made[0] != inputs.case:
            self._made = (inputs.case, make())
        return self._made[1]


class Headwise(Peer):
    """headwise itself."""

    name = "headwise"
    module = "headwise"

    def describe(self) -> str:
        """Return the version and the instruction set in use."""
        binding: Any = importlib.import_module("headwise._binding")
        return f"{super().describe()} ({binding.instruction_set()})"

    def prepare(self, inputs: Inputs) -> Run:
        """Use the plain call, with structured masks."""
        case, headwise = inputs.case, self.library
        headwise.set_num_threads(self.threads)
        arrays = [inputs.query, inputs.key, inputs.value]
        mask = headwise.causal() if case.causal else None
        if case.window:
            mask = headwise.window(case.window - 1, 0)
        if case.lengths:
            mask = headwise.lengths(case.lengths)
        if case.dtype != "bfloat16":
            return lambda: headwise.scaled_dot_product_attention(*arrays, mask)
        narrow: Any = importlib.import_module("ml_dtypes").bfloat16
        arrays = [x.astype(narrow) for x in arrays]
        return lambda: headwise.scaled_dot_product_attention(*arrays, mask).astype(np.float32)


class NumPy(Peer):
    """The four lines that anyone would write, with grouped heads as rows of one product."""

    name = "numpy"
    module = "numpy"
    forms_matrix = True

    def prepare(self, inputs: Inputs) -> Run:
        """Scale, mask, softmax and weigh; every matrix in full."""
        case = inputs.case
        if case.dtype == "bfloat16":
            raise NotOfferedError("NumPy has no bfloat16")
        key, value, visible = inputs.key, inputs.value, inputs.visible
        query = inputs.query.reshape(case.batch, case.groups, -1, case.dim)
        full = (case.batch, case.heads, case.query_len, case.kv_len)
        scale = query.dtype.type(case.dim**-0.5)

        def run() -> Array:
            scores = (query @ key.swapaxes(-1, -2) * scale).reshape(full)
            if visible is not None:
                scores = np.where(visible, scores, -np.inf)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            weights /= weights.sum(axis=-1, keepdims=True)
            output = weights.reshape(case.batch, case.groups, -1, case.kv_len) @ value
            return output.reshape(inputs.query.shape)

        return run


class Torch(Peer):
    """PyTorch's scaled_dot_product_attention."""

    name = "torch"
    module = "torch"

    def prepare(self, inputs: Inputs) -> Run:
        """Share the inputs' memory; let PyTorch choose its kernel."""
        torch, case = self.library, inputs.case
        torch.set_num_threads(self.threads)
        attend = torch.nn.functional.scaled_dot_product_attention
        dtype = getattr(torch, case.dtype)
        query, key, value = (
            torch.from_numpy(x).to(dtype) for x in (inputs.query, inputs.key, inputs.value)
        )
        options: dict[str, Any] = {"enable_gqa": case.groups != case.heads}
        if inputs.mask is not None:
            options["attn_mask"] = torch.from_numpy(inputs.mask)
        elif case.causal:
            options["is_causal"] = True
        widen = torch.float32 if case.dtype == "bfloat16" else dtype

        def run() -> Array:
            with torch.inference_mode():
                return attend(query, key, value, **options).to(widen).numpy()

        return run


class OnnxRuntime(Peer):
    """ONNX Runtime's Attention operator, in a model of that one node."""

    name = "onnxruntime"
    module = "onnxruntime"
    forms_matrix = True

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self.onnx: Any = importlib.import_module("onnx")

    def prepare(self, inputs: Inputs) -> Run:
        """Build the model and a session for it; masks are written out for every query."""
        if inputs.case.dtype == "bfloat16":
            raise NotOfferedError("its CPU operator takes no bfloat16")
        feeds = {"query": inputs.query, "key": inputs.key, "value": inputs.value}
        if inputs.mask is not None:
            shape = (*inputs.mask.shape[:-2], inputs.case.query_len, inputs.case.kv_len)
            feeds["mask"] = np.ascontiguousarray(np.broadcast_to(inputs.mask, shape))
        causal = inputs.case.causal and not inputs.case.window
        model = self._model(feeds, inputs.query.shape, causal)
        session = self.once(inputs, lambda: self._session(model.SerializeToString()))
        return lambda: session.run(None, feeds)[0]

    def _session(self, model: bytes) -> Any:
        options = self.library.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.log_severity_level = 4
        providers = ["CPUExecutionProvider"]
        return self.library.InferenceSession(model, options, providers=providers)

    def _model(self, feeds: dict[str, Array], shape: tuple[int, ...], causal: bool) -> Any:
        helper = self.onnx.helper
        arguments = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for name, x in feeds.items()
        ]
        dtype = helper.np_dtype_to_tensor_dtype(feeds["query"].dtype)
        output = helper.make_tensor_value_info("output", dtype, shape)
        node = helper.make_node("Attention", list(feeds), ["output"], is_causal=int(causal))
        graph = helper.make_graph([node], "attention", arguments, [output])
        opsets = [helper.make_opsetid("", 23)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class OpenVino(Peer):
    """OpenVINO's scaled_dot_product_attention, in float32."""

    name = "openvino"
    module = "openvino"
    forms_matrix = True

    def prepare(self, inputs: Inputs) -> Run:
        """Compile a model of one node for this processor."""
        case = inputs.case
        if case.groups != case.heads:
            raise NotOfferedError("its operator takes no grouped heads")
        if case.dtype == "bfloat16":
            raise NotOfferedError("it is run in float32")
        arrays = [inputs.query, inputs.key, inputs.value]
        arrays += [] if inputs.mask is None else [inputs.mask]
        causal = case.causal and not case.window
        request = self.once(inputs, lambda: self._request(arrays, causal))
        return lambda: request.infer(arrays, share_inputs=True, share_outputs=True)[0]

    def _request(self, arrays: list[Array], causal: bool) -> Any:
        operators, openvino = importlib.import_module("openvino.opset13"), self.library
        nodes = [operators.parameter(list(x.shape), x.dtype.type) for x in arrays]
        attend = operators.scaled_dot_product_attention(*nodes, causal=causal)
        settings = {
            "INFERENCE_NUM_THREADS": self.threads,
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        }
        model = openvino.Core().compile_model(openvino.Model([attend], nodes), "CPU", settings)
        return model.create_infer_request()


class Jax(Peer):
    """JAX's dot_product_attention, compiled; it takes its heads on the third axis."""

    name = "jax"
    module = "jax"
    forms_matrix = True

    def prepare(self, inputs: Inputs) -> Run:
        """Compile for the inputs, whose heads are moved beforehand."""
        jax, case = self.library, inputs.case
        jax.config.update("jax_enable_x64", case.dtype == "float64")
        dtype = getattr(jax.numpy, case.dtype)
        arrays = [
            jax.numpy.asarray(np.ascontiguousarray(x.swapaxes(1, 2)), dtype)
            for x in (inputs.query, inputs.key, inputs.value)
        ]
        mask = None if inputs.mask is None else jax.numpy.asarray(inputs.mask)
        if mask is not None and mask.ndim == 2:
            mask = mask[None, None]
        causal = case.causal and not case.window
        attend = self.once(inputs, lambda: self._compile(mask, causal))
        wide = np.float32 if case.dtype == "bfloat16" else None
        return lambda: np.asarray(attend(*arrays), wide).swapaxes(1, 2)

    def _compile(self, mask: Any, causal: bool) -> Any:
        attend = self.library.nn.dot_product_attention
        return self.library.jit(lambda q, k, v: attend(q, k, v, mask=mask, is_causal=causal))


PEERS: dict[str, type[Peer]] = {
    peer.name: peer for peer in (Headwise, Torch, NumPy, OnnxRuntime, OpenVino, Jax)
}
