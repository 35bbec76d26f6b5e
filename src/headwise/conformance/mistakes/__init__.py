"""Known mistakes, each a few lines that replace a step of `headwise.conformance.plain.Plain`."""

from headwise.conformance.mistakes import heads, masks, options, positions, results, scores
from headwise.conformance.plain import Mistake

# Where two explain the same failures equally well, the first is named.
MISTAKES: tuple[Mistake, ...] = (
    *heads.MISTAKES,
    *scores.MISTAKES,
    *results.MISTAKES,
    *masks.MISTAKES,
    *positions.MISTAKES,
    *options.MISTAKES,
)

__all__ = ["MISTAKES", "Mistake"]
