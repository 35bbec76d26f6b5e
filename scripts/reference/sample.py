"""What the pictures show: the embedded sample in float64, and a pattern of four tokens."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import headwise
from headwise import lens
from headwise.statistics import SECOND_PASS, STATISTICS

Array = Any

PATTERN = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.15, 0.5, 0.25]])


@cache
def recording() -> lens.Recording:
    """Return the embedded sample."""
    return lens.load_sample()


@cache
def atlas() -> lens.Atlas:
    """Return the sample's atlas."""
    return lens.profile(recording())


@cache
def seen(layer: int) -> headwise.Observation:
    """Return all there is to know of a layer of the sample, in float64."""
    kept = recording().layers[layer]
    query, key, value = (x[None].astype(np.float64) for x in (kept.query, kept.key, kept.value))
    wanted = [*STATISTICS, *SECOND_PASS]
    return headwise.observe(query, key, value, headwise.causal(), statistics=wanted)


def weights(layer: int, head: int) -> Array:
    """Return the weights of a head of the sample, ``(queries, keys)``."""
    return seen(layer).weights(heads=head)[0]


@cache
def four_tokens() -> headwise.Observation:
    """Return the pattern of four tokens, observed: values are 1, 2, 3, 4."""
    zeros, values = np.zeros((1, 4, 1)), np.array([[[1.0], [2], [3], [4]]])
    bias = np.log(np.maximum(PATTERN, 1e-9))
    return headwise.observe(
        zeros, zeros, values, headwise.causal(), bias=bias, statistics=[*STATISTICS, *SECOND_PASS]
    )
