"""Mistakes in scores and softmax."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from headwise.conformance import plain
from headwise.conformance.cases import Array
from headwise.conformance.plain import Mistake

Softmax: TypeAlias = Callable[[Array, Array | None], Array]


def _root(n: int) -> float:
    return float(np.sqrt(n)) if n else 1.0


def _by_model(query: Array, key: Array) -> float:
    del key
    return 1 / _root(query.shape[-1] * (query.shape[-3] if query.ndim > 2 else 1))


def zero_by_zero(scores: Array, sink: Array | None) -> Array:
    """Leave rows of nothing but -inf to arithmetic: -inf - -inf is NaN."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - (largest if sink is None else np.maximum(largest, sink)))
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / (total if sink is None else total + np.exp(sink - largest)))


def _over(axis: int, softmax: Softmax) -> Softmax:
    def along(scores: Array, sink: Array | None) -> Array:
        place = axis if axis < 0 else axis - scores.ndim
        if scores.ndim < -place:
            raise ValueError("no such axis")
        return np.moveaxis(softmax(np.moveaxis(scores, place, -1), sink), -1, place)

    return along


def _over_all(softmax: Softmax) -> Softmax:
    def over_all(scores: Array, sink: Array | None) -> Array:
        flat = scores.reshape(*scores.shape[:-2], 1, -1)
        return softmax(flat, sink).reshape(scores.shape)

    return over_all


def _no_maximum(scores: Array, sink: Array | None) -> Array:
    weights = np.exp(scores)
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(weights / (total if sink is None else total + np.exp(sink)))


def _one_maximum(scores: Array, sink: Array | None) -> Array:
    del sink
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _not_normalised(scores: Array, sink: Array | None) -> Array:
    del sink
    return np.asarray(np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf)))


def _plain_exponentials(scores: Array, sink: Array | None) -> Array:
    del sink
    return np.asarray(np.exp(scores))


def _no_softmax(scores: Array, sink: Array | None) -> Array:
    del sink
    return scores


def _sigmoid(scores: Array, sink: Array | None) -> Array:
    del sink
    return np.asarray(1 / (1 + np.exp(-scores)))


def _hard(scores: Array, sink: Array | None) -> Array:
    del sink
    best = scores.argmax(axis=-1)[..., None]
    return np.asarray(np.arange(scores.shape[-1]) == best).astype(scores.dtype)


def _twice(scores: Array, sink: Array | None) -> Array:
    return plain.softmax(plain.softmax(scores, sink), None)


def _reshaped_key(query: Array, key: Array) -> Array:
    return np.asarray(query @ key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2]))


def _not_transposed(query: Array, key: Array) -> Array:
    return np.asarray(query @ key)


def _of_queries(query: Array, key: Array) -> Array:
    return plain.product(key, query)


def _cosine(query: Array, key: Array) -> Array:
    lengths = (np.linalg.norm(x, axis=-1, keepdims=True) for x in (query, key))
    return plain.product(*(x / n for x, n in zip((query, key), lengths, strict=True)))


def _swapped(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    return plain.operands(query, value, key)


def _keys_as_values(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    query, key, _ = plain.operands(query, key, value)
    return query, key, key


DIVIDE = "scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])"
OVER_KEYS = "The softmax runs over the keys, the last axis: axis=-1, with keepdims=True."
SUBTRACT = "scores - scores.max(axis=-1, keepdims=True) before np.exp: it changes no weight."
WRONG_AXES: tuple[tuple[str, str, Callable[[Softmax], Softmax]], ...] = (
    (
        "softmax over the queries",
        "The weights add up to 1 over the queries instead of the keys.",
        partial(_over, -2),
    ),
    (
        "softmax over the heads",
        "The weights add up to 1 over the heads instead of the keys.",
        partial(_over, -3),
    ),
    (
        "softmax over axis 1",
        "The weights add up to 1 over axis 1, which is the heads' in four dimensions.",
        partial(_over, 1),
    ),
    (
        "softmax over the batch",
        "The weights add up to 1 over the batch (axis 0) instead of the keys.",
        partial(_over, 0),
    ),
    (
        "softmax over the whole matrix",
        "The weights of all queries together add up to 1.",
        _over_all,
    ),
)
MISTAKES = (
    Mistake(
        "not scaled",
        "The scores are not scaled.",
        f"Divide by the root of head_dim: {DIVIDE}.",
        {"factor": lambda *_: 1.0},
    ),
    Mistake(
        "scaled by head_dim",
        "The scores are divided by head_dim instead of its root.",
        f"Take the root: {DIVIDE}.",
        {"factor": lambda query, _: 1 / max(query.shape[-1], 1)},
    ),
    Mistake(
        "scaled by d_model",
        "The scores are divided by the root of d_model (all heads' dimensions), not of one head's.",
        f"Inside a head the dimension is d_k: {DIVIDE}.",
        {"factor": _by_model},
    ),
    Mistake(
        "head_dim of 0 divided by",
        "Where keys have no dimensions, 0 is divided by 0.",
        "All scores are 0 there, and all keys count alike: divide by math.sqrt(head_dim or 1).",
        {"factor": lambda query, _: _root(query.shape[-1]) ** -1 if query.shape[-1] else np.nan},
    ),
    Mistake(
        "multiplied by the root",
        "The scores are multiplied by the root of head_dim.",
        f"Divide: {DIVIDE}.",
        {"factor": lambda query, _: _root(query.shape[-1])},
    ),
    Mistake(
        "scaled by the number of keys",
        "The scores are divided by the root of the number of keys.",
        f"Take head_dim, the last dimension of the query: {DIVIDE}.",
        {"factor": lambda _, key: 1 / _root(key.shape[-2])},
    ),
    Mistake(
        "scaled by the number of queries",
        "The scores are divided by the root of the number of queries (axis -2).",
        f"Take head_dim, the last dimension: {DIVIDE}.",
        {"factor": lambda query, _: 1 / _root(query.shape[-2])},
    ),
    Mistake(
        "scaled by the number of heads",
        "The scores are divided by the root of the number of heads.",
        f"Take head_dim, the last dimension: {DIVIDE}.",
        {"factor": lambda query, _: 1 / _root(query.shape[-3] if query.ndim > 2 else 1)},
    ),
    *(
        Mistake(name, says, OVER_KEYS, {"softmax": make(softmax)})
        for name, says, make in WRONG_AXES
        for softmax in (plain.softmax, zero_by_zero)
    ),
    Mistake(
        "maximum not subtracted",
        "Large scores overflow in exp: inf / inf is NaN.",
        f"Subtract each row's largest score: {SUBTRACT}",
        {"softmax": _no_maximum},
    ),
    Mistake(
        "one maximum for all rows",
        "The largest score of the whole array is subtracted, so that rows far below it vanish.",
        f"Subtract each row's own: {SUBTRACT}",
        {"softmax": _one_maximum},
    ),
    Mistake(
        "softmax not normalised",
        "The exponentials are not divided by their sum.",
        "Divide: weights / weights.sum(axis=-1, keepdims=True).",
        {"softmax": _not_normalised},
    ),
    Mistake(
        "exponentials for weights",
        "The weights are exp(scores), neither shifted nor divided by their sum.",
        "Divide: weights / weights.sum(axis=-1, keepdims=True).",
        {"softmax": _plain_exponentials},
    ),
    Mistake(
        "no softmax",
        "The scores themselves are used as weights.",
        "Turn them into weights: a softmax over the last axis.",
        {"softmax": _no_softmax},
    ),
    Mistake(
        "sigmoid for softmax",
        "Each score goes through a sigmoid of its own.",
        OVER_KEYS,
        {"softmax": _sigmoid},
    ),
    Mistake(
        "largest score only",
        "The value of the largest score is taken, instead of a weighted mean.",
        OVER_KEYS,
        {"softmax": _hard},
    ),
    Mistake(
        "softmax twice",
        "The weights go through the softmax a second time.",
        "One softmax is enough.",
        {"softmax": _twice},
    ),
    Mistake(
        "key reshaped for transposed",
        "The key is brought to (head_dim, kv_len) by a reshape, which mixes its numbers up.",
        "Swap its last two axes: key.swapaxes(-1, -2).",
        {"product": _reshaped_key},
    ),
    Mistake(
        "key not transposed",
        "The query is multiplied by the key as it is.",
        "Swap its last two axes: query @ key.swapaxes(-1, -2).",
        {"product": _not_transposed},
    ),
    Mistake(
        "query and key exchanged",
        "The scores are key times query: rows are keys.",
        "query @ key.swapaxes(-1, -2), so that rows are queries.",
        {"product": _of_queries},
    ),
    Mistake(
        "cosine for dot product",
        "Query and key are brought to length 1 before they are multiplied.",
        "Take the plain dot product and divide by the root of head_dim.",
        {"product": _cosine, "factor": lambda *_: 1.0},
    ),
    Mistake(
        "key and value exchanged",
        "Key and value are taken for one another.",
        "Scores come from query and key; the weights then multiply the value.",
        {"operands": _swapped},
    ),
    Mistake(
        "keys used as values",
        "The weights multiply the key instead of the value.",
        "weights @ value.",
        {"operands": _keys_as_values},
    ),
)
