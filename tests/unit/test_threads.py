"""How many threads a call uses, and who says so."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import threadpoolctl
import torch

import headwise
from headwise import _threadpoolctl, _threads
from headwise._binding import _kernel
from tests.support import draw, refuses, same_bits

VARIABLES = ("HEADWISE_NUM_THREADS", "OMP_NUM_THREADS")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> Any:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    _threads._default.cache_clear()
    yield
    _threads._default.cache_clear()


@pytest.mark.parametrize("n", [0, -1])
def test_less_than_one_thread_is_refused(n: int) -> None:
    x = np.ones((2, 2))
    with refuses(ValueError, "num_threads", "at least 1", str(n)):
        headwise.scaled_dot_product_attention(x, x, x, num_threads=n)
    with refuses(ValueError, "n must be", "at least 1", str(n)):
        headwise.set_num_threads(n)


@pytest.mark.parametrize("n", [2.0, "2", True, [2]])
def test_what_is_no_number_of_threads_is_refused(n: Any) -> None:
    x = np.ones((2, 2))
    with refuses(TypeError, "num_threads", "whole number", repr(n)):
        headwise.observe(x, x, x, num_threads=n)
    with refuses(TypeError, "whole number", repr(n)):
        headwise.set_num_threads(n)


def test_a_whole_number_of_numpy_is_a_number_of_threads() -> None:
    assert _threads.check_num_threads(np.int64(2)) == 2


def test_setting_and_going_back() -> None:
    before = headwise.get_num_threads()
    headwise.set_num_threads(before + 3)
    assert headwise.get_num_threads() == before + 3
    assert "set_num_threads" in _threads.explain_num_threads()
    headwise.set_num_threads(None)
    assert headwise.get_num_threads() == before
    assert "set_num_threads" not in _threads.explain_num_threads()


@pytest.mark.parametrize(
    ("text", "count"), [("3", 3), ("5,2,1", 5), (" 4 ", 4), ("", None), ("x", None), ("0", None)]
)
@pytest.mark.parametrize("variable", VARIABLES)
def test_the_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, count: int | None
) -> None:
    otherwise = headwise.get_num_threads()
    _threads._default.cache_clear()
    monkeypatch.setenv(variable, text)
    assert headwise.get_num_threads() == (count or otherwise)
    assert (variable in _threads.explain_num_threads()) == (count is not None)


def test_headwises_own_variable_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("HEADWISE_NUM_THREADS", "5")
    assert headwise.get_num_threads() == 5


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000", 2), ("10000 100000", 1), ("max 100000", None), ("", None)]
)
def test_the_quota_of_the_control_group(
    monkeypatch: pytest.MonkeyPatch, text: str, quota: int | None
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: text)
    assert _threads._cgroup_quota() == quota


def test_no_more_than_the_processors_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "_cgroup_quota", lambda: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    assert headwise.get_num_threads() == 3
    _threads._default.cache_clear()
    monkeypatch.setattr(_threads, "_cgroup_quota", lambda: 2)
    assert headwise.get_num_threads() == 2
    assert "quota" in _threads.explain_num_threads()


def test_threadpoolctl_sees_and_limits_the_threads() -> None:
    chosen = _threads._chosen
    try:
        (found,) = (
            pool for pool in threadpoolctl.threadpool_info() if pool["internal_api"] == "headwise"
        )
        assert found["num_threads"] == headwise.get_num_threads()
        assert found["version"] == headwise.__version__
        before = headwise.get_num_threads()
        with threadpoolctl.threadpool_limits(1):
            assert headwise.get_num_threads() == 1
            assert "threadpoolctl" in _threads.explain_num_threads()
        assert headwise.get_num_threads() == before
        with threadpoolctl.threadpool_limits(1, user_api="blas"):
            assert headwise.get_num_threads() == before
    finally:
        headwise.set_num_threads(chosen)


@pytest.mark.parametrize("installed", ["nothing", "an old one"])
def test_threadpoolctl_is_not_needed(monkeypatch: pytest.MonkeyPatch, installed: str) -> None:
    if installed == "nothing":
        monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    else:
        monkeypatch.delattr(threadpoolctl, "LibController")
    _threadpoolctl.register()


def test_tensors_are_computed_by_pytorchs_threads(rng: np.random.Generator) -> None:
    """Its threads spin after each of its operations and would keep others off the processors."""
    torch.ones(2000, 2000) @ torch.ones(2000, 2000)
    assert "omp" in Path(_kernel.team_library()).name
    inputs = draw(rng, (2, 3), (300, 300), dtype=np.float32)
    tensors = [torch.from_numpy(x) for x in inputs]
    for count in (1, 2, 64):  # more than it has: then the pool's own
        got = headwise.scaled_dot_product_attention(*tensors, num_threads=count)
        assert same_bits(got.numpy(), headwise.scaled_dot_product_attention(*inputs))


def test_tensors_after_a_fork(rng: np.random.Generator) -> None:
    """OpenMP's threads do not live on in a child, and it waits for them: they are left alone."""
    tensors = [torch.from_numpy(x) for x in draw(rng, (2, 3), (300, 300), dtype=np.float32)]
    want = headwise.scaled_dot_product_attention(*tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of forks where there are threads
        child = os.fork()
    if child == 0:
        same = torch.equal(headwise.scaled_dot_product_attention(*tensors), want)
        os._exit(0 if same and not _kernel.team_library() else 1)
    assert os.waitpid(child, 0)[1] == 0
