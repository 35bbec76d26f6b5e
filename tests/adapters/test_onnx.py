"""ONNX's node tests, and whole models with headwise's operators in the place of onnx's."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.inliner
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import headwise
from headwise.adapters import onnx as adapter
from headwise.adapters._onnx_attributes import OPSETS
from headwise.adapters.onnx import Attention, RotaryEmbedding
from tests.support import Array, normal, refuses, run_script

FLOAT = onnx.TensorProto.FLOAT
OPERATORS = {"Attention": 93, "RotaryEmbedding": 8}  # how many node tests onnx 1.23 has


def node_tests() -> list[Any]:
    """Have onnx make the node tests of both operators: their inputs are drawn when imported."""
    state = np.random.get_state()  # noqa: NPY002
    np.random.seed(23)  # noqa: NPY002
    for name in OPERATORS:
        importlib.import_module(f"onnx.backend.test.case.node.{name.lower()}")
    np.random.set_state(state)  # noqa: NPY002
    cases = importlib.import_module("onnx.backend.test.case.node")._NodeTestCases
    return [c for c in cases if operator_of(c) in OPERATORS]


def operator_of(case: Any) -> str:
    """Return a case's operator; none where it is taken apart into others."""
    nodes = case.model.graph.node
    return str(nodes[0].op_type) if len(nodes) == 1 else ""


CASES = node_tests()


@pytest.mark.parametrize("operator", OPERATORS)
def test_all_node_tests_are_there(operator: str) -> None:
    assert sum(operator_of(case) == operator for case in CASES) == OPERATORS[operator]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.removeprefix("test_"))
def test_node(case: Any) -> None:
    evaluator = ReferenceEvaluator(case.model, new_ops=[Attention, RotaryEmbedding])
    assert isinstance(evaluator.rt_nodes_[0], (Attention, RotaryEmbedding))
    for inputs, outputs in case.data_sets:
        got = evaluator.run(None, dict(zip(evaluator.input_names, inputs, strict=True)))
        for ours, theirs in zip(got, outputs, strict=True):
            check(ours, theirs, case)


def check(ours: Array, theirs: Array, case: Any) -> None:
    """Compare within the case's tolerance; bfloat16 within that of onnx's own runner."""
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    bfloat16 = theirs.dtype.name == "bfloat16"
    ours, theirs = (x.astype(np.float32) if bfloat16 else x for x in (ours, theirs))
    rtol = max(case.rtol, 2**-6) if bfloat16 else case.rtol
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=case.atol)


def model(
    nodes: Sequence[Any], feeds: dict[str, Array], outputs: dict[str, int], opset: int
) -> Any:
    """Make a model of nodes, fed with arrays, whose outputs have these numbers of dimensions."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in feeds.items()}
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(n, kinds[n], x.shape) for n, x in feeds.items()],
        [helper.make_tensor_value_info(n, FLOAT, [None] * rank) for n, rank in outputs.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.checker.check_model(proto)
    return proto


def layer(number: int, x: str, y: str, **attributes: Any) -> list[Any]:
    """Return the nodes of a layer: projections, rotary positions, a cache, a residual."""
    at = f"{number}."
    nodes = [helper.make_node("MatMul", [x, f"{at}w{n}"], [at + n]) for n in "qkv"]
    for n, heads in (("q", 4), ("k", 2)):
        rotated = [at + n, "cos", "sin", "ids"], [f"{at}{n}.turned"]
        nodes.append(helper.make_node("RotaryEmbedding", *rotated, num_heads=heads))
    inputs = [f"{at}q.turned", f"{at}k.turned", f"{at}v", "", f"{at}past_k", f"{at}past_v"]
    outputs = [f"{at}attended", f"{at}present_k", f"{at}present_v"]
    attend = helper.make_node(
        "Attention", inputs, outputs, q_num_heads=4, kv_num_heads=2, **attributes
    )
    back = helper.make_node("MatMul", [outputs[0], f"{at}wo"], [f"{at}out"])
    return [*nodes, attend, back, helper.make_node("Add", [x, f"{at}out"], [y])]


@pytest.mark.parametrize("opset", [24, 25])
def test_a_whole_model(rng: np.random.Generator, opset: int) -> None:
    more = {"left_window_size": 3} if opset > 24 else {"softcap": 4.0}
    nodes = [*layer(1, "x", "h", is_causal=1), *layer(2, "h", "y", is_causal=1, **more)]
    shapes = {"wq": (32, 32), "wk": (32, 16), "wv": (32, 16), "wo": (32, 32)}
    shapes |= {"past_k": (2, 2, 7, 8), "past_v": (2, 2, 7, 8)}
    feeds = {f"{i}.{n}": normal(rng, *shapes[n], dtype="f4") / 6 for i in (1, 2) for n in shapes}
    cos, sin = headwise.rotary_caches(14, 8, dtype=np.float32)
    feeds |= {"x": normal(rng, 2, 5, 32, dtype="f4"), "cos": cos, "sin": sin}
    feeds["ids"] = np.array([[7, 8, 9, 10, 11], [2, 3, 4, 5, 13]])
    outputs = {"y": 3, **{f"{i}.present_{n}": 4 for i in (1, 2) for n in "kv"}}
    proto = model(nodes, feeds, outputs, opset)
    ours = ReferenceEvaluator(proto, new_ops=[Attention, RotaryEmbedding]).run(None, feeds)
    theirs = ReferenceEvaluator(proto).run(None, feeds)
    assert [x.shape for x in ours] == [(2, 5, 32), *[(2, 2, 12, 8)] * 4]
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_outputs_without_a_name_do_not_become_inputs(rng: np.random.Generator) -> None:
    first = helper.make_node("Attention", ["q", "k", "v"], ["h", "", "", "matrix"])
    second = helper.make_node("Attention", ["h", "k", "v", "", "", "", "lengths"], ["y", "", ""])
    q, k = normal(rng, 1, 2, 3, 4, dtype="f4"), normal(rng, 1, 2, 5, 4, dtype="f4")
    feeds = {"q": q, "k": k, "v": k, "lengths": np.array([3])}
    proto = model([first, second], feeds, {"y": 4, "matrix": 4}, 24)
    y, matrix = ReferenceEvaluator(proto, new_ops=[Attention]).run(None, feeds)
    h = adapter.attention(q, k, k).Y
    np.testing.assert_array_equal(y, adapter.attention(h, k, k, nonpad_kv_seqlen=[3]).Y)
    np.testing.assert_allclose(matrix, q @ k.swapaxes(-1, -2) / 2, rtol=1e-5)


@pytest.mark.parametrize("named", [False, True])
def test_the_matrix_is_made_where_its_output_has_a_name(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    modes: list[int | None] = []
    attend = adapter.attend

    def spy(call: Any, visible: Any, attributes: Any) -> Any:
        modes.append(attributes.qk_matmul_output_mode)
        return attend(call, visible, attributes)

    monkeypatch.setattr(adapter, "attend", spy)
    outputs = ["y", "", "", "matrix" if named else ""]
    node = helper.make_node("Attention", ["q", "q", "q"], outputs, qk_matmul_output_mode=3)
    feeds = {"q": normal(rng, 1, 2, 3, 4, dtype="f4")}
    proto = model([node], feeds, dict.fromkeys(filter(None, outputs), 4), 24)
    results = ReferenceEvaluator(proto, new_ops=[Attention]).run(None, feeds)
    assert modes == [3 if named else None]
    assert len(results) == 1 + named


def a_function() -> Any:
    """Return a function whose attribute is handed on to its node."""
    node = helper.make_node("Attention", ["q", "q", "q"], ["y"])
    node.attribute.append(
        onnx.AttributeProto(name="is_causal", ref_attr_name="c", type=onnx.AttributeProto.INT)
    )
    return helper.make_function(
        "own", "F", ["q"], ["y"], [node], [helper.make_opsetid("", 24)], ["c"]
    )


def test_attributes_handed_on_by_a_function(rng: np.random.Generator) -> None:
    q = normal(rng, 1, 2, 3, 4, dtype="f4")
    evaluator = ReferenceEvaluator(a_function(), new_ops=[Attention])
    for c in (0, 1):
        [y] = evaluator.run(None, {"q": q}, attributes={"c": c})
        np.testing.assert_array_equal(y, adapter.attention(q, q, q, is_causal=c).Y)


def test_functions_of_a_model_inlined(rng: np.random.Generator) -> None:
    feeds = {"q": normal(rng, 1, 2, 3, 4, dtype="f4")}
    proto = model([helper.make_node("Identity", ["q"], ["y"])], feeds, {"y": 4}, 24)
    proto.graph.node[0].CopyFrom(helper.make_node("F", ["q"], ["y"], domain="own", c=1))
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.functions.append(a_function())
    inlined = onnx.inliner.inline_local_functions(proto)
    [y] = ReferenceEvaluator(inlined, new_ops=[Attention]).run(None, feeds)
    np.testing.assert_array_equal(y, adapter.attention(*[feeds["q"]] * 3, is_causal=1).Y)


def test_a_model_is_held_to_its_opset(rng: np.random.Generator) -> None:
    node = helper.make_node("Attention", ["q", "q", "q"], ["y"])
    feeds = {"q": normal(rng, 1, 2, 3, 4, dtype="f4")}
    proto = model([node], feeds, {"y": 4}, 24)
    proto.graph.node[0].attribute.append(helper.make_attribute("left_window_size", 1))
    evaluator = ReferenceEvaluator(proto, new_ops=[Attention])
    with refuses(ValueError, "left_window_size came with opset 25", "opset=24"):
        evaluator.run(None, feeds)


@pytest.mark.parametrize(
    ("call", "name"), [("attention", "Attention"), ("rotary_embedding", "RotaryEmbedding")]
)
def test_names_and_defaults_are_the_operators(call: str, name: str) -> None:
    schema = onnx.defs.get_schema(name, OPSETS[-1])
    parameters = inspect.signature(getattr(adapter, call)).parameters
    named = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert named == [i.name for i in schema.inputs]
    options = {p.name: p.default for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert options.pop("opset") == 25
    assert set(options) == set(schema.attributes)
    for attribute in schema.attributes.values():
        given = attribute.default_value
        default = helper.get_attribute_value(given) if given.type else None
        if attribute.name != "qk_matmul_output_mode":  # None does not ask for the output
            assert options[attribute.name] == default
    if name == "Attention":
        assert adapter.AttentionOutputs._fields == tuple(o.name for o in schema.outputs)


@pytest.mark.parametrize("opset", OPSETS)
def test_the_known_opsets_are_those_of_the_versions(opset: int) -> None:
    assert onnx.defs.get_schema("Attention", opset).since_version == min(opset, 25)
    assert onnx.defs.get_schema("RotaryEmbedding", opset).since_version == 23


def test_onnx_is_imported_when_its_classes_are_asked_for() -> None:
    script = (
        "import sys, headwise.adapters.onnx as a; x = [[[[1.0]]]]; a.attention(x, x, x);"
        "before = 'onnx' in sys.modules; a.Attention; print(before, 'onnx' in sys.modules)"
    )
    assert run_script(script).strip() == "False True"


def test_a_missing_onnx_is_named() -> None:
    script = (
        "import sys; sys.modules['onnx'] = None\n"
        "import headwise.adapters.onnx as a\n"
        "try: a.RotaryEmbedding\n"
        "except ImportError as error: print(error)"
    )
    assert "pip install 'headwise[onnx]'" in run_script(script)


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="Softmax"):
        adapter.Softmax  # noqa: B018
