"""A file's source as a target in this process: quick, where no separate process is needed."""

from __future__ import annotations

import types
from functools import partial
from typing import Any

import numpy as np

from headwise.conformance.calls import run_function
from headwise.conformance.cases import FUNCTIONS, Call, Case, load_cases
from headwise.conformance.diagnosis import Result, diagnose
from headwise.conformance.judge import judge
from headwise.conformance.outcome import Target, invoke
from headwise.conformance.report import Report

CASES = [case for case in load_cases() if "law" not in case.expected]


def target_of(source: str) -> Target:
    """Make a target of a file's text; `attend` counts as the attention call."""
    module = types.ModuleType("planted")
    exec(compile(source, "planted.py", "exec"), vars(module))
    if hasattr(module, "attend"):
        vars(module)["scaled_dot_product_attention"] = vars(module)["attend"]
    functions = {name: getattr(module, name) for name in FUNCTIONS if hasattr(module, name)}

    def run(call: Call) -> Any:
        return run_function(functions[call.function], call, lambda x: x)

    return Target(functions, run, module, file="planted.py")


def report_of(source: str, cases: list[Case] = CASES) -> Report:
    """Check a file's text."""
    target = target_of(source)
    with np.errstate(all="ignore"):
        outcomes = [(case, invoke(target, case)) for case in cases]
    results = tuple(Result(case, got, judge(case, got)) for case, got in outcomes)
    make = partial(Report, "planted.py", "", tuple(target.functions), results)
    return make(tuple(diagnose(results)), 0.0)
