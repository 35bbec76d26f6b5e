"""The attention call."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from headwise import _binding
from headwise._arrays import Array, dtype_name, like, to_numpy
from headwise._errors import shape_text
from headwise._prepare import Prepared, prepare
from headwise._threads import get_num_threads

ArrayT = TypeVar("ArrayT")


def scaled_dot_product_attention(
    query: ArrayT,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    query_offset: Any = None,
    scale: float | None = None,
    bias: Any = None,
    softcap: float | None = None,
    sink_logits: Any = None,
    out: Any = None,
    num_threads: int | None = None,
) -> ArrayT:
    r"""Attend: ``softmax(scale · query keyᵀ + bias, where mask) · value``, exactly.

    Scores are scaled, then capped, then biased, then masked; a sink is one more key. The whole
    matrix of weights is never formed; memory does not grow with the lengths.

    Parameters
    ----------
    query
        ``(..., num_heads, query_len, head_dim)``: float16, bfloat16 (ml_dtypes' in NumPy),
        float32 or float64. Any number of leading dimensions, none included; they broadcast as in
        NumPy. Scores and sums of 16-bit inputs are float32.
    key
        ``(..., num_kv_heads, kv_len, head_dim)``. From 4 dimensions on, heads may be grouped: query
        head h reads key/value head ``h // (num_heads // num_kv_heads)``. The query's dtype, or 16
        bits with a float32 query.
    value
        ``(..., num_kv_heads, kv_len, value_dim)``.
    mask
        Who may attend, True = may attend: a boolean array that broadcasts to ``(..., num_heads,
        query_len, kv_len)``, whole numbers 0 and 1, a mask of `headwise.masks` (`causal`,
        `window`, `lengths`, `documents`, `prefix`), or several combined with ``&`` and ``|``. A
        float array is added to the scores, as `bias` is.
    query_offset
        Where query 0 stands on the keys' axis: a whole number, one for each batch item,
        ``"upper_left"`` (0) or ``"lower_right"`` (``kv_len - query_len``; with `lengths`, each
        item's own). Must be given where the lengths differ and mask or bias depend on positions.
    scale
        Factor of the scores; None is ``1/√head_dim``.
    bias
        Added to the scores: a float array, broadcast as `mask` is, `headwise.alibi`,
        `headwise.relative`, or a sum of such; -inf hides a key.
    softcap
        Bounds the scores before the bias: ``softcap · tanh(scores / softcap)``; None is no bound.
    sink_logits
        ``(num_heads,)``: scores of one extra key for each head, whose value is zero. The weights
        of a row then add to less than 1.
    out
        Array to write the result to: its shape, the query's dtype.
    num_threads
        Threads for this call; None is `headwise.get_num_threads`.

    Returns
    -------
    array
        ``(..., num_heads, query_len, value_dim)``, of the query's array type and dtype. A query
        that may attend to nothing gets zeros.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, what was expected, what came and what to do.
    KeyboardInterrupt
        Within half a second of Ctrl-C, also in a long call.

    See Also
    --------
    headwise.observe : the same with log-sum-exp, row statistics and exact weights.
    headwise.reference.attention : the same in plain NumPy, to read.

    Notes
    -----
    From PyTorch's function of this name: ``attn_mask`` is ``mask``, ``is_causal=True`` is
    ``mask=headwise.causal()``, and grouped heads need no flag.

    Vaswani et al. 2017, "Attention Is All You Need", equation 1; computed with the online softmax
    of Milakov & Gimelshein 2018, as FlashAttention (Dao et al. 2022) does.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.eye(3, dtype=np.float32)
    >>> headwise.scaled_dot_product_attention(x, x, x, headwise.causal()).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.36, 0.64, 0.  ],
           [0.26, 0.26, 0.47]], dtype=float32)
    """
    if (
        mask is bias is softcap is sink_logits is out is None
        and query_offset is scale is num_threads is None
    ):
        plain = _binding.attend_plainly(
            query, key, value, get_num_threads(), _binding.instruction_set()
        )
        if plain is not None:
            return plain  # type: ignore[return-value]
    prepared = prepare(
        query,
        key,
        value,
        mask,
        query_offset=query_offset,
        scale=scale,
        bias=bias,
        softcap=softcap,
        sink_logits=sink_logits,
        num_threads=num_threads,
    )
    if out is None:
        output = np.empty(prepared.sizes.output, prepared.dtype)
        run(prepared, output, {})
        return like(query, output)  # type: ignore[no-any-return]
    _run_into(prepared, _check_out(out, prepared))
    return out  # type: ignore[no-any-return]


def kernel_arguments(prepared: Prepared, output: Array, statistics: dict[str, Array]) -> list[Any]:
    """Return what every kernel call begins with."""
    offset = prepared.query_offset
    return [
        prepared.query,
        prepared.key,
        prepared.value,
        output,
        prepared.mask.program,
        prepared.scoring,
        0 if offset is None else offset,
        [(_binding.STATISTICS[name], array) for name, array in statistics.items()],
    ]


def run(
    prepared: Prepared,
    output: Array,
    statistics: dict[str, Array],
    first_keys: int = 1,
    bounding: int = 1,
) -> None:
    """Run the kernel: writes the output and the row statistics asked for.

    ``first_keys`` is for ``first_weight``, ``bounding`` for ``top_bound``.
    """
    arguments = kernel_arguments(prepared, output, statistics)
    how = (first_keys, bounding, *prepared.threads, _binding.instruction_set())
    _binding.attend(*arguments, *how)


def _check_out(out: Any, prepared: Prepared) -> Array:
    if isinstance(out, np.ma.MaskedArray):
        raise TypeError("out is a masked array, whose mask attention would not set: pass out.data")
    if not hasattr(out, "__dlpack__"):
        raise TypeError(f"out must be an array to write to, got {type(out).__name__}")
    array = to_numpy("out", out)
    if array.shape != prepared.sizes.output:
        raise ValueError(
            f"out must have the result's shape {shape_text(prepared.sizes.output)}, got "
            f"{shape_text(array.shape)}"
        )
    if array.dtype != prepared.dtype:
        raise ValueError(
            f"out must have the query's dtype {dtype_name(prepared.query)}, got {dtype_name(array)}"
        )
    if not array.flags.writeable:
        raise ValueError("out must be writable, got a read-only array (as JAX's are)")
    if _overlaps_itself(array):
        raise ValueError("out must hold every element once, got a view whose elements share memory")
    return array


def _overlaps_itself(array: Array) -> bool:
    """Tell whether two elements may share memory: each stride must span all that lies within."""
    extent = array.itemsize
    steps = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    for stride, n in sorted(steps):
        if stride < extent:
            return array.size > 0
        extent += stride * (n - 1)
    return False


def _run_into(prepared: Prepared, out: Array) -> None:
    """Write to ``out``, by way of a fresh array where it may overlap an operand."""
    if any(np.may_share_memory(array, out) for array in prepared.operands):
        fresh = np.empty(out.shape, out.dtype)
        run(prepared, fresh, {})
        out[...] = fresh
    else:
        run(prepared, out, {})
