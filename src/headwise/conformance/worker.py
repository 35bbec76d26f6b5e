"""The process in which a target runs: it takes the names of cases and gives outcomes back.

Line by line, JSON, over two pipes of its own; whatever the target prints goes elsewhere.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import Any, TextIO

import numpy as np

from headwise.conformance.backends import BACKENDS
from headwise.conformance.cases import load_cases
from headwise.conformance.outcome import Target, invoke
from headwise.conformance.targets import TargetError, load_target

GRACE = 5.0  # seconds beyond the limit after which a worker that nobody ends ends itself


def main() -> None:
    """Load the target, then answer one request after another until the pipe closes."""
    requests = os.fdopen(int(sys.argv[1]), "r", encoding="utf-8")
    answers = os.fdopen(int(sys.argv[2]), "w", encoding="utf-8")
    settings = json.loads(requests.readline())
    _alarm(settings["start_timeout"])
    try:
        target = load_target(settings["target"], settings["role"], settings["arrays"])
    except TargetError as error:
        _send(answers, {"error": str(error)})
        return
    if settings["target"] not in BACKENDS:
        _bound_memory(settings["memory_gib"])
    _send(answers, {"about": target.about, "functions": list(target.functions)})
    _serve(target, requests, answers, settings["timeout"])


def _serve(target: Target, requests: TextIO, answers: TextIO, timeout: float) -> None:
    cases = {case.name: case for case in load_cases()}
    for line in requests:
        _alarm(timeout)
        with np.errstate(all="ignore"):
            outcome = invoke(target, cases[line.strip()])
        _send(answers, outcome.pack())
        _alarm(0)


def _send(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _alarm(seconds: float) -> None:
    """Have the system end this process, should the one that asked be gone."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE if seconds else 0)


def _bound_memory(gib: float) -> None:
    """Let the target take so much memory beyond what its imports took."""
    if not gib:
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (now + int(gib * 2**30),) * 2)


if __name__ == "__main__":
    main()
