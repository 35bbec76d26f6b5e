"""Attributes of ONNX's operators, checked: a model's opset decides which there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwise._numbers import finite_number, whole_number
from headwise.masks import Mask, window

OPSETS = range(23, 29)  # from 25 on the operator has not changed
SCALED, CAPPED, BIASED, WEIGHTS = MODES = range(4)  # of qk_matmul_output_mode
FLOAT32, FLOAT16, FLOAT64, BFLOAT16 = PRECISIONS = (1, 10, 11, 16)  # ONNX's numbers of dtypes


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """The operator's attributes, checked."""

    opset: int
    is_causal: int
    kv_num_heads: int | None
    left_window_size: int
    q_num_heads: int | None
    qk_matmul_output_mode: int | None
    right_window_size: int
    scale: float | None
    softcap: float
    softmax_precision: int | None

    def __post_init__(self) -> None:
        check_opset(self.opset, "Attention")
        one_of("is_causal", self.is_causal, (0, 1))
        one_of("qk_matmul_output_mode", self.qk_matmul_output_mode, (*MODES, None))
        one_of("softmax_precision", self.softmax_precision, (*PRECISIONS, None))
        for name in ("q_num_heads", "kv_num_heads"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least=1)
        for name in ("left_window_size", "right_window_size"):
            self._check_window(name, whole_number(name, getattr(self, name), least=None))
        if finite_number("softcap", self.softcap) < 0:
            raise ValueError(f"softcap must be greater than 0, or 0 for no cap, got {self.softcap}")

    def _check_window(self, name: str, size: int) -> None:
        if size < -1:
            raise ValueError(f"{name} must be at least 0, or -1 where unbounded, got {size}")
        if size > -1 and self.opset < 25:
            raise ValueError(f"{name} came with opset 25, got {size} and opset={self.opset}")

    @property
    def window(self) -> Mask | None:
        """The window as a mask; None where there is none."""
        sides = [None if n < 0 else n for n in (self.left_window_size, self.right_window_size)]
        return None if sides == [None, None] else window(*sides)


def check_opset(opset: Any, name: str) -> None:
    """Check that an operator's version is one that is known."""
    if whole_number("opset", opset) not in OPSETS:
        raise ValueError(f"opset must be from 23 to {OPSETS[-1]} for {name}, got {opset}")


def one_of(name: str, x: Any, choices: tuple[Any, ...]) -> None:
    """Check an attribute that has a few values only."""
    number = None if x is None else whole_number(name, x)
    if number not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, got {x!r}")
