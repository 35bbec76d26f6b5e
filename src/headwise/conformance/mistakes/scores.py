"""Mistakes in scores, softmax and the weighted sum, in precision and in what is returned."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwise.conformance import plain
from headwise.conformance.cases import Array
from headwise.conformance.plain import Mistake


def _root(n: int) -> float:
    return float(np.sqrt(n)) if n else 1.0


def _by_model(query: Array, key: Array) -> float:
    del key
    return 1 / _root(query.shape[-1] * (query.shape[-3] if query.ndim > 2 else 1))


def _softmax_over(axis: int) -> Any:
    def softmax(scores: Array, sink: Array | None) -> Array:
        if scores.ndim < -axis:
            raise ValueError("no such axis")
        weights = plain.softmax(np.moveaxis(scores, axis, -1), sink)
        return np.moveaxis(weights, -1, axis)

    return softmax


def _softmax_over_all(scores: Array, sink: Array | None) -> Array:
    flat = scores.reshape(*scores.shape[:-2], 1, -1)
    return plain.softmax(flat, sink).reshape(scores.shape)


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
    return np.asarray(np.eye(scores.shape[-1])[scores.argmax(axis=-1)])


def _twice(scores: Array, sink: Array | None) -> Array:
    return plain.softmax(plain.softmax(scores, sink), None)


def _reshaped_key(query: Array, key: Array) -> Array:
    return np.asarray(query @ key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2]))


def _not_transposed(query: Array, key: Array) -> Array:
    return np.asarray(query @ key)


def _of_queries(query: Array, key: Array) -> Array:
    return plain.product(key, query)


def _transposed_scores(query: Array, key: Array) -> Array:
    return plain.product(query, key).swapaxes(-1, -2)


def _cosine(query: Array, key: Array) -> Array:
    lengths = (np.linalg.norm(x, axis=-1, keepdims=True) for x in (query, key))
    return plain.product(*(x / n for x, n in zip((query, key), lengths, strict=True)))


def _swapped(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    return plain.operands(query, value, key)


def _keys_as_values(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    query, key, _ = plain.operands(query, key, value)
    return query, key, key


def _in_place(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    """Scale the query where it lies."""
    arrays = plain.operands(query, key, value)
    if not isinstance(query, np.ndarray) or query.dtype.kind not in "fV":
        raise TypeError("cannot be scaled in place")
    query *= query.dtype.type(1 / _root(query.shape[-1]))
    return arrays


def _only_rank_4(query: Any, key: Any, value: Any) -> tuple[Array, Array, Array]:
    if not np.ndim(query) == np.ndim(key) == np.ndim(value) == 4:
        raise ValueError("not four dimensions")
    return plain.operands(query, key, value)


def _batch_by_batch(weights: Array, value: Array, visible: Array) -> Array:
    output = plain.weigh(weights, value, visible)
    return np.asarray(output.mean(axis=-3)) if output.ndim > 2 else output


def _low(dtype: Any) -> Any:
    del dtype
    return np.float32


def _own(dtype: Any) -> Any:
    """Compute in the inputs' precision, 16 bits included."""
    return dtype.newbyteorder("=").type


def _flat(output: Array, query: Array) -> Array:
    output = plain.finish(output, query)
    return plain.combine(output) if output.ndim > 2 else output


DIVIDE = "scores = query @ key.swapaxes(-1, -2) / math.sqrt(query.shape[-1])"
OVER_KEYS = "The softmax runs over the keys, the last axis: axis=-1, with keepdims=True."
SUBTRACT = "scores - scores.max(axis=-1, keepdims=True) before np.exp: it changes no weight."
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
    Mistake(
        "softmax over the queries",
        "The weights add up to 1 over the queries instead of the keys.",
        OVER_KEYS,
        {"softmax": _softmax_over(-2)},
    ),
    Mistake(
        "softmax over the heads",
        "The weights add up to 1 over the heads instead of the keys (axis 1 of 4, not the last).",
        OVER_KEYS,
        {"softmax": _softmax_over(-3)},
    ),
    Mistake(
        "softmax over the batch",
        "The weights add up to 1 over the batch (axis 0) instead of the keys.",
        OVER_KEYS,
        {"softmax": lambda scores, sink: _softmax_over(-scores.ndim)(scores, sink)},
    ),
    Mistake(
        "softmax over the whole matrix",
        "The weights of all queries together add up to 1.",
        OVER_KEYS,
        {"softmax": _softmax_over_all},
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
    Mistake(
        "heads averaged in the attention",
        "The result is averaged over the heads.",
        "Leave the leading dimensions alone: weights @ value.",
        {"weigh": _batch_by_batch},
    ),
    Mistake(
        "result combined",
        "The result's heads are put side by side.",
        "Return weights @ value as it is; combining heads is another function.",
        {"finish": _flat},
    ),
    Mistake(
        "result not transposed back",
        "The result's last two axes are exchanged.",
        "The result is (..., query_len, value_dim): weights @ value.",
        {"finish": lambda output, query: plain.finish(output, query).swapaxes(-1, -2)},
    ),
    Mistake(
        "changes its inputs",
        "The query is scaled in place: the caller's array is another one afterwards.",
        "Write scores = scores / root, not query /= root.",
        {"operands": _in_place, "factor": lambda *_: 1.0},
    ),
    Mistake(
        "takes four dimensions only",
        "Arrays with another number of dimensions than four raise.",
        "Count axes from the end: swapaxes(-1, -2), axis=-1, and '...' in einsum.",
        {"operands": _only_rank_4},
    ),
    Mistake(
        "lower precision",
        "float64 inputs are computed in float32.",
        "Compute in the inputs' own precision.",
        {"working": _low},
    ),
    Mistake(
        "result in float64",
        "The result is float64 whatever came; in NumPy 2 an np.sqrt(d_k) does that.",
        "Use math.sqrt(d_k), or output.astype(query.dtype).",
        {"finish": lambda output, _: output.astype(np.float64)},
    ),
    Mistake(
        "result in float32",
        "The result is float32 whatever came.",
        "Return output.astype(query.dtype).",
        {"finish": lambda output, _: output.astype(np.float32)},
    ),
    Mistake(
        "computed in 16 bits",
        "16-bit inputs are computed in 16 bits: products overflow and sums lose their digits.",
        "Compute in float32 and round at the end.",
        {"working": _own},
    ),
    Mistake(
        "result is a list",
        "A nested list is returned.",
        "Return an array: np.array(output).",
        {"finish": lambda output, query: plain.finish(output, query).tolist()},
    ),
    Mistake(
        "output and weights returned",
        "A pair is returned: the output with the weights.",
        "Return the output alone, or check a function that returns its first part.",
        {"finish": lambda output, query: (plain.finish(output, query), output)},
    ),
    Mistake(
        "nothing returned",
        "None is returned: there is no return statement.",
        "End with return output.",
        {"finish": lambda *_: None},
    ),
)
