"""The boundary: instruction sets, and arrays that would reach past memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headwise import _binding
from tests.support import INSTRUCTION_SETS, refuses

ARRAY, RANGES, ALL_OF = (_binding.MASK_KINDS[kind] for kind in ("array", "ranges", "all_of"))
LSE, ARGMAX = _binding.STATISTICS["lse"], _binding.STATISTICS["argmax"]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Forget what was chosen, before and after; set the variable with what this returns."""
    _binding.instruction_set.cache_clear()
    yield lambda name: monkeypatch.setenv(_binding.VARIABLE, name)
    _binding.instruction_set.cache_clear()


def test_portable_instruction_sets_are_always_there() -> None:
    assert {"baseline", "scalar"} <= set(INSTRUCTION_SETS)


@pytest.mark.parametrize("name", INSTRUCTION_SETS)
def test_the_environment_names_the_instruction_set(chosen: Any, name: str) -> None:
    chosen(name)
    assert _binding.instruction_set() == name
    assert _binding.VARIABLE in _binding.explain_instruction_set()


def test_the_best_one_is_the_default(chosen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_binding.VARIABLE, raising=False)
    assert _binding.instruction_set() == INSTRUCTION_SETS[0]
    assert all(name in _binding.explain_instruction_set() for name in INSTRUCTION_SETS)


def test_an_unknown_instruction_set_is_refused(chosen: Any) -> None:
    chosen("mmx")
    with refuses(RuntimeError, _binding.VARIABLE, "'mmx'", *INSTRUCTION_SETS):
        _binding.instruction_set()
    with refuses(ValueError, "mmx", "not available"):
        _binding.apply("exp2", np.zeros(64), np.zeros(64), "mmx")


GOOD: dict[str, Any] = {
    "query": np.zeros((3, 4)),
    "key": np.zeros((5, 4)),
    "value": np.zeros((5, 2)),
    "output": np.zeros((3, 2)),
    "mask": [],
    "scoring": (1.0, 0.0, None, None, None, None),
    "query_offset": 0,
    "statistics": [],
}
BAD: dict[str, dict[str, Any]] = {
    "rank": {"query": np.zeros(4)},
    "precision of query and output": {"query": np.zeros((3, 4), np.float32)},
    "query length": {"query": np.zeros((2, 4))},
    "head_dim of key": {"key": np.zeros((5, 3))},
    "key and value": {"value": np.zeros((4, 2))},
    "value_dim": {"value": np.zeros((5, 3))},
    "heads": {"key": np.zeros((2, 5, 4)), "value": np.zeros((2, 5, 2))},
    "heads of query": {"query": np.zeros((2, 3, 4)), "output": np.zeros((3, 3, 2))},
    "bias": {"scoring": (1.0, 0.0, np.zeros((3, 4)), None, None, None)},
    "numbers of heads": {"scoring": (1.0, 0.0, None, np.zeros(2), None, None)},
    "relative table": {"scoring": (1.0, 0.0, None, None, np.zeros((1, 2)), None)},
    "leading dimensions": {"scoring": (1.0, 0.0, np.zeros((2, 1, 3, 5)), None, None, None)},
    "mask": {"mask": [(ARRAY, np.ones((3, 4), bool))]},
    "ranges of the mask": {"mask": [(RANGES, np.zeros((3, 1), np.int64))]},
    "depth of the mask": {"mask": [(ALL_OF,)]},
    "kind of a mask's step": {"mask": [(99,)]},
    "query_offset": {"query_offset": np.zeros(2, np.int64)},
    "statistic": {"statistics": [(99, np.zeros(3))]},
    "size of a statistic": {"statistics": [(LSE, np.zeros(3, np.float32))]},
}


@pytest.mark.parametrize("what", BAD)
def test_inconsistent_arrays_never_reach_a_kernel(what: str) -> None:
    arguments = GOOD | BAD[what]
    with refuses(ValueError, "inconsistent arrays", what):
        _binding.attend(*arguments.values(), 1, 1, 1, False, "scalar")


def test_consistent_arrays_do() -> None:
    rows, largest = np.full(3, 7.0), np.full(3, 7)
    arguments = GOOD | {"statistics": [(LSE, rows), (ARGMAX, largest)]}
    _binding.attend(*arguments.values(), 1, 1, 1, False, "scalar")
    np.testing.assert_allclose(rows, np.log(5))
    assert not largest.any()


@pytest.mark.parametrize(
    ("what", "rectangle"),
    [
        ("size of weights", (0, 0, 0, 1, 0)),
        ("size of weights", (0, 0, 0, 3, 0, 5) * 2),
        ("item or head", (1, 0, 0, 3, 0, 5)),
        ("item or head", (0, -1, 0, 3, 0, 5)),
        ("queries", (0, 0, 0, 4, 0, 5)),
        ("queries", (0, 0, 2, 1, 0, 5)),
        ("keys", (0, 0, 0, 3, -1, 5)),
        ("size of weights", (0, 0, 0, 2, 0, 5)),
        ("row statistics", (0, 0, 0, 3, 0, 5)),
    ],
)
def test_rectangles_outside_the_scores_are_refused(what: str, rectangle: Any) -> None:
    names = ("row_maximum", "row_total") if what != "row statistics" else ("row_total",)
    statistics = [(_binding.STATISTICS[name], np.ones(3)) for name in names]
    arguments = GOOD | {"statistics": statistics}
    with refuses(ValueError, "inconsistent arrays", what):
        _binding.weights(
            *arguments.values(), np.array(rectangle), np.zeros((3, 5)), 1, False, "scalar"
        )


def test_an_output_that_is_read_only_is_refused() -> None:
    output = np.zeros((3, 2))
    output.flags.writeable = False
    with pytest.raises((ValueError, BufferError), match=r"read-only|writ"):
        _binding.attend(*(GOOD | {"output": output}).values(), 1, 1, 1, False, "scalar")


@pytest.mark.parametrize("dtype", ["complex64", "int64", "longdouble", "bool"])
def test_elements_that_no_kernel_reads_are_refused(dtype: str) -> None:
    scoring = (1.0, 0.0, np.zeros((3, 5), dtype), None, None, None)
    with refuses(ValueError, "no kernel", "format"):
        _binding.attend(*(GOOD | {"scoring": scoring}).values(), 1, 1, 1, False, "scalar")


def test_too_many_waiting_operands_never_reach_a_kernel() -> None:
    leaf = (ARRAY, np.ones((3, 5), bool))
    good = [leaf] * _binding.MASK_DEPTH + [(ALL_OF,)] * (_binding.MASK_DEPTH - 1)
    _binding.attend(*(GOOD | {"mask": good}).values(), 1, 1, 1, False, "scalar")
    for mask in ([leaf, *good, (ALL_OF,)], [leaf, leaf]):
        with refuses(ValueError, "inconsistent arrays", "mask"):
            _binding.attend(*(GOOD | {"mask": mask}).values(), 1, 1, 1, False, "scalar")


ROWS = [(_binding.STATISTICS[name], np.ones(3)) for name in ("row_maximum", "row_total")]
WANTED: dict[str, dict[str, Any]] = {
    "bands": {"band_queries": 0},
    "size of what is collected": {"received": np.zeros(4)},
    "size of counts": {"top": 2, "top_weights": np.zeros(6), "top_keys": np.zeros(5, np.int64)},
    "blocks": {"block_sums": np.zeros(6), "block_maxima": np.zeros(6), "block_queries": 0,
               "block_keys": 1},
    "a block in two bands": {"band_queries": 2, "block_sums": np.zeros(4), "block_keys": 5,
                             "block_maxima": np.zeros(4), "block_queries": 3},
    "stripes": {"stripes": [(np.arange(5), np.zeros(3, np.int64), np.full(3, 6), np.zeros(3))]},
}  # fmt: skip


@pytest.mark.parametrize("what", WANTED)
def test_what_does_not_fit_is_not_collected(what: str) -> None:
    arguments = GOOD | {"statistics": ROWS}
    wanted = {"band_queries": 3} | WANTED[what]
    with refuses(ValueError, "inconsistent arrays", what):
        _binding.collect(*arguments.values(), 1, 1, wanted, False, 1, False, "scalar")


def test_a_second_pass_needs_the_first() -> None:
    with refuses(ValueError, "row statistics"):
        _binding.collect(*GOOD.values(), 1, 1, {"band_queries": 3}, False, 1, False, "scalar")
