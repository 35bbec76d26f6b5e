"""Fixtures of all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `from tests.support import`

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # transformers: no test asks the network

import headwise
from tests.support import DTYPES, FEW, INSTRUCTION_SETS, MANY, forced


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170612)


@pytest.fixture(params=INSTRUCTION_SETS)
def instruction_set(request: pytest.FixtureRequest) -> Iterator[str]:
    """Force each instruction set of this machine in turn."""
    with forced(request.param):
        yield request.param


@pytest.fixture(params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> np.dtype[Any]:
    return np.dtype(request.param)


@pytest.fixture(params=[FEW, MANY], ids=["few", "many"])
def queries(request: pytest.FixtureRequest) -> int:
    """Return a number of queries for either kernel."""
    return int(request.param)


@pytest.fixture(params=["plain", "observed"])
def attend(request: pytest.FixtureRequest) -> Any:
    """Return the plain call, and the same output by way of `headwise.observe`."""
    if request.param == "plain":
        return headwise.scaled_dot_product_attention
    return lambda *inputs, **options: headwise.observe(*inputs, **options).output


@pytest.fixture(autouse=True)
def default_threads() -> Iterator[None]:
    yield
    headwise.set_num_threads(None)
