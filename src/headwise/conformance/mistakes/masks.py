"""Mistakes in masks and in what is added to the scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise.conformance import plain
from headwise.conformance.cases import Array
from headwise.conformance.mistakes.scores import zero_by_zero
from headwise.conformance.plain import Mistake


def _finite(number: float) -> Any:
    def hide(scores: Array, visible: Array, bias: Array | None) -> Array:
        del bias
        return np.where(visible, scores, number)

    return hide


def _lowest(scores: Array, visible: Array, bias: Array | None) -> Array:
    del bias
    return np.where(visible, scores, np.finfo(scores.dtype).min)


def _subtract(number: float) -> Any:
    def hide(scores: Array, visible: Array, bias: Array | None) -> Array:
        del bias
        return scores + np.where(visible, 0.0, number)

    return hide


def _textbook(scores: Array, sink: Array | None) -> Array:
    if not scores.shape[-1]:
        raise ValueError("no maximum of nothing")
    return zero_by_zero(scores, sink)


def _nan_is_nothing(scores: Array, sink: Array | None) -> Array:
    return np.nan_to_num(plain.softmax(scores, sink), nan=0.0)


def _maximum_of_nothing(scores: Array, sink: Array | None) -> Array:
    if not scores.shape[-1]:
        raise ValueError("no maximum of nothing")
    return plain.softmax(scores, sink)


def _no_hiding(scores: Array, visible: Array, bias: Array | None) -> Array:
    del visible, bias
    return scores


def _multiplied(scores: Array, visible: Array, bias: Array | None) -> Array:
    del bias
    return np.asarray(scores * visible)


def _added(scores: Array, visible: Array, bias: Array | None) -> Array:
    del bias
    return np.asarray(scores + visible)


def _transposed(mask: Array) -> Array:
    seen = plain.dense(mask)
    return seen.swapaxes(-1, -2) if seen.ndim > 1 else seen


def _after_softmax(weights: Array, value: Array, visible: Array) -> Array:
    return np.asarray((weights * visible) @ value)


def _renormalised(weights: Array, value: Array, visible: Array) -> Array:
    kept = weights * visible
    return np.asarray(kept / kept.sum(axis=-1, keepdims=True) @ value)


def _zero_times_value(weights: Array, value: Array, visible: Array) -> Array:
    del visible
    return np.asarray(weights @ value)


def _nan_to_zero(output: Array, query: Array) -> Any:
    return plain.finish(np.nan_to_num(output, nan=0.0), query)


def _as_boolean(mask: Array) -> tuple[Array, None]:
    return mask != 0, None


def _as_boolean_above(mask: Array) -> tuple[Array, None]:
    return mask > 0, None


def _additive_refused(mask: Array) -> Any:
    del mask
    raise TypeError("only truth values")


def _cut_off(scores: Array, bias: Array | None) -> Array:
    if bias is None:
        return scores
    return scores + np.maximum(bias, np.finfo(scores.dtype).min)


def _zero_bias(scores: Array, bias: Array | None) -> Array:
    return scores if bias is None else scores + np.nan_to_num(bias, neginf=0.0)


def _any_number(mask: Array) -> Array:
    return mask != 0


def _only_ones(mask: Array) -> Array:
    return mask == 1


def _kept_in_view(scores: Array, visible: Array, bias: Array | None) -> Array:
    """Leave what a bias of -inf hides to arithmetic: -inf + NaN is NaN."""
    del bias
    return np.where(visible, scores, -np.inf)


WHERE = "scores = np.where(mask, scores, -np.inf) before the softmax"
ZEROS = (
    "Give rows without any visible key zeros: "
    "weights = np.where(mask.any(axis=-1, keepdims=True), weights, 0)."
)
MISTAKES = (
    Mistake(
        "mask ignored",
        "The mask has no effect.",
        f"Hide keys: {WHERE}.",
        {"hide": _no_hiding, "weigh": _zero_times_value},
    ),
    Mistake(
        "mask upside down",
        "True hides: the polarity of the mask is turned around.",
        f"True means may attend: {WHERE}.",
        {"dense": lambda mask: ~plain.dense(mask)},
    ),
    Mistake(
        "mask transposed",
        "The mask's queries and keys are exchanged.",
        "Its last two axes are (query_len, kv_len), as those of the scores.",
        {"dense": _transposed},
    ),
    Mistake(
        "masked after the softmax",
        "Weights of hidden keys are set to 0 after the softmax: those left add up to less than 1.",
        f"Mask the scores: {WHERE}.",
        {"hide": _no_hiding, "weigh": _after_softmax},
    ),
    Mistake(
        "masked after the softmax and normalised again",
        "Weights of hidden keys are set to 0 after the softmax and the rest is divided by its sum: "
        "hidden scores still matter, and rows without keys are 0 / 0.",
        f"Mask the scores: {WHERE}.",
        {"hide": _no_hiding, "weigh": _renormalised},
    ),
    Mistake(
        "hidden scores set to 0",
        "The scores of hidden keys become 0, and e^0 is 1: they still take part.",
        f"Use -inf: {WHERE}.",
        {"hide": _finite(0.0), "weigh": _zero_times_value},
    ),
    Mistake(
        "mask multiplied into the scores",
        "The mask is multiplied into the scores: hidden ones become 0, and e^0 is 1.",
        f"Use -inf: {WHERE}.",
        {"hide": _multiplied, "weigh": _zero_times_value, "additive": lambda m: (m, None)},
    ),
    Mistake(
        "boolean mask added",
        "The mask is added to the scores as 0 and 1, and hides nothing.",
        f"A boolean mask says who may attend: {WHERE}.",
        {"hide": _added, "weigh": _zero_times_value},
    ),
    Mistake(
        "no keys raise",
        "Where there is no key at all the maximum raises.",
        "Return zeros: scores.max(axis=-1, keepdims=True, initial=-np.inf) needs no key.",
        {"softmax": _maximum_of_nothing},
    ),
    Mistake(
        "rows without keys are NaN, no keys raise",
        "A query that may attend to nothing gives NaN (-inf - -inf), and where there is no key at "
        "all the maximum raises.",
        f"{ZEROS} And scores.max(axis=-1, keepdims=True, initial=-np.inf).",
        {"softmax": _textbook},
    ),
    Mistake(
        "rows without keys are NaN",
        "A query that may attend to nothing gives NaN: -inf - -inf.",
        ZEROS,
        {"softmax": zero_by_zero},
    ),
    *(
        Mistake(
            f"hidden scores set to {text}",
            f"Hidden keys get {text} instead of -inf: a query that may attend to nothing gets the "
            "mean of all values, and very low scores let hidden keys in.",
            f"Use -inf: {WHERE}. {ZEROS}",
            {"hide": hide},
        )
        for text, hide in (
            ("-1e9", _finite(-1e9)),
            ("-1e4", _finite(-1e4)),
            ("-100", _finite(-100.0)),
            ("the lowest finite number", _lowest),
        )
    ),
    *(
        Mistake(
            f"hidden scores lowered by {text}",
            f"{text} is added to hidden scores: a NaN among them stays NaN, and a query that may "
            "attend to nothing attends to all keys.",
            f"Set hidden scores instead: {WHERE}. {ZEROS}",
            {"hide": hide},
        )
        for text, hide in (("-1e9", _subtract(-1e9)), ("-1e4", _subtract(-1e4)))
    ),
    Mistake(
        "hidden values leak",
        "A NaN or an infinity in a hidden value reaches the result: 0 · NaN is NaN.",
        "Set values that no query sees to 0 first, or add visible values only.",
        {"weigh": _zero_times_value},
    ),
    Mistake(
        "hidden keys and values leak",
        "-inf is added to hidden scores: a NaN or an infinity in a hidden key or value reaches the "
        "result, since NaN - inf and 0 · NaN are NaN.",
        f"Set hidden scores: {WHERE}; and add visible values only.",
        {"hide": _subtract(-np.inf), "weigh": _zero_times_value},
    ),
    Mistake(
        "hidden keys leak",
        "-inf is added to hidden scores: a NaN or an infinity in a hidden key reaches the result.",
        f"Set hidden scores: {WHERE}.",
        {"hide": _subtract(-np.inf)},
    ),
    Mistake(
        "keys hidden by a bias leak",
        "What a bias of -inf hides is left to arithmetic: NaN - inf is NaN.",
        "Set scores to -inf where the bias is -inf.",
        {"hide": _kept_in_view},
    ),
    Mistake(
        "NaN scores count as none",
        "A query whose scores are NaN gives 0, as if it saw no key: a NaN that came in is lost.",
        "Only rows that see no key are 0; a NaN in a query is to be seen.",
        {"softmax": _nan_is_nothing},
    ),
    Mistake(
        "NaN turned to 0",
        "Every NaN of the result becomes 0, those that came in with the inputs, too.",
        "Only rows that see no key are 0; a NaN in a query is to be seen.",
        {"finish": _nan_to_zero},
    ),
    Mistake(
        "float mask read as boolean",
        "A float mask is read as true and false instead of being added.",
        "Look at the dtype: boolean hides, floating point is added to the scores.",
        {"additive": _as_boolean},
    ),
    Mistake(
        "float mask read as boolean above 0",
        "A float mask is read as true where above 0 instead of being added.",
        "Look at the dtype: boolean hides, floating point is added to the scores.",
        {"additive": _as_boolean_above},
    ),
    Mistake(
        "float masks refused",
        "A float mask raises.",
        "Add it to the scores.",
        {"additive": _additive_refused},
    ),
    Mistake(
        "float mask of 0 and 1 added",
        "A float mask of only 0.0 and 1.0 is added, which hides nothing.",
        "Refuse it: it means mask != 0, or a bias.",
        {"additive": lambda mask: (None, mask)},
    ),
    Mistake(
        "whole numbers of any size as a mask",
        "A mask of whole numbers beside 0 and 1 is taken for true.",
        "Refuse it: it may be meant the other way around, or to be added.",
        {"dense": _any_number},
    ),
    Mistake(
        "whole numbers beside 1 hide",
        "A mask of whole numbers beside 0 and 1 is taken for false.",
        "Refuse it: it may be meant the other way around, or to be added.",
        {"dense": _only_ones},
    ),
    Mistake(
        "-inf of a bias cut off",
        "-inf in a bias counts as the lowest finite number: rows without keys get a mean.",
        "-inf hides; a row of nothing else is 0.",
        {"add": _cut_off, "hide": _kept_in_view},
    ),
    Mistake(
        "-inf of a bias left out",
        "-inf in a bias counts as 0: it hides nothing.",
        "-inf hides.",
        {"add": _zero_bias, "hide": _kept_in_view},
    ),
)
