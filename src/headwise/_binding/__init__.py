"""The compiled kernels and the instruction set they run on."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache

from headwise._binding import _kernel
from headwise._errors import listing

attend: Callable[..., None] = _kernel.attend
attend_plainly = _kernel.attend_plainly
weights: Callable[..., None] = _kernel.weights
collect: Callable[..., None] = _kernel.collect
count_viewers: Callable[..., None] = _kernel.count_viewers
apply = _kernel.apply
instruction_sets = _kernel.instruction_sets
STATISTICS = {name: number for number, (name, _) in enumerate(_kernel.statistics())}
COUNTS = frozenset(name for name, is_count in _kernel.statistics() if is_count)
FEW_ROWS: int = _kernel.FEW_ROWS
SPLIT_ROWS: int = _kernel.SPLIT_ROWS
MASK_DEPTH: int = _kernel.MASK_DEPTH
OFFSET_MARGIN: int = _kernel.OFFSET_MARGIN
MASK_KINDS = {name: number for number, name in enumerate(_kernel.MASK_KINDS)}

VARIABLE = "HEADWISE_INSTRUCTION_SET"


@cache
def instruction_set() -> str:
    """Return the instruction set in use: the best one here, or the one named by the environment.

    Raises
    ------
    RuntimeError
        Where ``HEADWISE_INSTRUCTION_SET`` names one that is not built in or cannot run here.
    """
    available = instruction_sets()
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return available[0]
    if wanted not in available:
        raise RuntimeError(f"{VARIABLE} is {wanted!r}, but this machine has {listing(available)}")
    return wanted


def explain_instruction_set() -> str:
    """Say in a few words why `instruction_set` is what it is."""
    if os.environ.get(VARIABLE):
        return f"the environment variable {VARIABLE}"
    return f"the best of {', '.join(instruction_sets())}"
