"""The operators ``Attention`` and ``RotaryEmbedding`` of ONNX, computed by headwise.

`attention` and `rotary_embedding` take the operators' inputs and attributes by their names, and
need no onnx. The classes ``Attention`` and ``RotaryEmbedding`` put them in place of onnx's own in
its reference evaluator; onnx is imported when they are asked for: ``pip install 'headwise[onnx]'``.
The evaluator does not hand them on to functions of the model's own; inline those first with
``onnx.inliner.inline_local_functions``.

Example
-------
>>> import numpy as np
>>> from onnx import parser
>>> from onnx.reference import ReferenceEvaluator
>>> from headwise.adapters.onnx import Attention
>>> model = parser.parse_model(
...     '<ir_version: 10, opset_import: ["" : 24]>'
...     "graph (float[1, 2, 3, 4] x) => (float[1, 2, 3, 4] y)"
...     "{ y = Attention <is_causal = 1> (x, x, x) }"
... )
>>> x = np.ones((1, 2, 3, 4), np.float32)
>>> [y] = ReferenceEvaluator(model, new_ops=[Attention]).run(None, {"x": x})
>>> y.shape
(1, 2, 3, 4)
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from headwise import rotary
from headwise._arrays import like
from headwise.adapters._onnx_attention import attend, read_call, read_masks
from headwise.adapters._onnx_attributes import Attributes, check_opset, one_of
from headwise.heads import combine_heads

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

    Attention: type[OpRun]
    RotaryEmbedding: type[OpRun]


class AttentionOutputs(NamedTuple):
    """What `attention` returns, by the operator's names.

    ``qk_matmul_output`` is None where it was not asked for.
    """

    Y: Any
    present_key: Any
    present_value: Any
    qk_matmul_output: Any


def attention(
    Q: Any,
    K: Any,
    V: Any,
    attn_mask: Any = None,
    past_key: Any = None,
    past_value: Any = None,
    nonpad_kv_seqlen: Any = None,
    *,
    opset: int = 25,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int | None = None,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> AttentionOutputs:
    """Compute ONNX's operator ``Attention``, of opset 23, 24 or 25.

    Parameters
    ----------
    Q
        ``(batch, q_num_heads, query_len, head_dim)``; or, with `q_num_heads` and `kv_num_heads`,
        ``(batch, query_len, q_num_heads · head_dim)``.
    K, V
        ``(batch, kv_num_heads, kv_len, head_dim)`` and ``(…, value_dim)``; or with heads side by
        side, as Q.
    attn_mask
        Boolean, True = may attend, or floats that are added to the scores; broadcasts to ``(batch,
        q_num_heads, query_len, total_len)`` with ``total_len = past_len + kv_len``. From opset 24
        on its last dimension may be shorter: keys beyond it are hidden.
    past_key, past_value
        ``(batch, kv_num_heads, past_len, head_dim)`` and ``(…, value_dim)``: come before K and V.
    nonpad_kv_seqlen
        ``(batch,)``, from opset 24 on: how many keys of each item are real, where K and V are a
        whole cache.
    opset
        The model's, 23 to 28; from 25 on the operator has not changed.
    is_causal
        1: query i sees key j where ``j <= i + offset``. The offset is ``past_len``, or
        ``nonpad_kv_seqlen - query_len``, or 0.
    left_window_size, right_window_size
        From opset 25 on: query i sees keys from ``i + offset - left`` to ``i + offset + right``; -1
        is unbounded.
    q_num_heads, kv_num_heads
        Needed where Q, K and V have 3 dimensions.
    qk_matmul_output_mode
        Asks for ``qk_matmul_output``: 0 for scaled scores, 1 for capped ones, 2 for those with
        mask and bias, 3 for weights. None does not, and saves its memory.
    scale
        Factor of the scores; None is ``1/√head_dim``.
    softcap
        Bounds the scores before mask and bias; 0 is no bound.
    softmax_precision
        The least precision of the softmax, by ONNX's number of its dtype: 1 float32, 10 float16, 11
        float64, 16 bfloat16. It is float32 or better in any case; 11 has all computed in float64.

    Returns
    -------
    AttentionOutputs
        ``Y`` in Q's layout, ``present_key`` and ``present_value`` ``(batch, kv_num_heads,
        total_len, …)``, and ``qk_matmul_output`` ``(batch, q_num_heads, query_len, total_len)`` or
        None. Array types and dtypes are those of Q, K, V and Q.

    Raises
    ------
    TypeError, ValueError
        Naming the input or attribute, what was expected, what came and what to do. Nothing is
        ignored: what the opset does not have is refused.

    Notes
    -----
    ONNX, "Operators", Attention-23, -24 and -25, with the corrections of onnx 1.23. Where the
    operator leaves it open, the rules of `headwise.scaled_dot_product_attention` hold: what is not
    visible reaches no output, not even as NaN; scores of 16-bit inputs are float32; any finite
    scale. Causal masks, windows and lengths are never made dense, but for mode 2.

    Examples
    --------
    >>> import numpy as np
    >>> from headwise.adapters.onnx import attention
    >>> x = np.eye(3, dtype=np.float32).reshape(1, 1, 3, 3)
    >>> outputs = attention(x, x, x, is_causal=1, qk_matmul_output_mode=3)
    >>> outputs.qk_matmul_output[0, 0].round(2)
    array([[1.  , 0.  , 0.  ],
           [0.36, 0.64, 0.  ],
           [0.26, 0.26, 0.47]], dtype=float32)
    """
    attributes = Attributes(
        opset=opset,
        is_causal=is_causal,
        kv_num_heads=kv_num_heads,
        left_window_size=left_window_size,
        q_num_heads=q_num_heads,
        qk_matmul_output_mode=qk_matmul_output_mode,
        right_window_size=right_window_size,
        scale=scale,
        softcap=softcap,
        softmax_precision=softmax_precision,
    )
    call = read_call(Q, K, V, past_key, past_value, attributes)
    visible = read_masks(call, attn_mask, nonpad_kv_seqlen, attributes)
    head_outputs, matrix = attend(call, visible, attributes)
    output = combine_heads(head_outputs) if call.side_by_side else head_outputs
    return AttentionOutputs(
        like(Q, output),
        like(K, call.key),
        like(V, call.value),
        None if matrix is None else like(Q, matrix),
    )


def rotary_embedding(
    X: Any,
    cos_cache: Any,
    sin_cache: Any,
    position_ids: Any = None,
    *,
    opset: int = 25,
    interleaved: int = 0,
    num_heads: int | None = None,
    rotary_embedding_dim: int = 0,
) -> Any:
    """Compute ONNX's operator ``RotaryEmbedding``, of opset 23.

    Parameters
    ----------
    X
        ``(batch, num_heads, seq_len, head_dim)``; or, with `num_heads`, ``(batch, seq_len,
        num_heads · head_dim)``.
    cos_cache, sin_cache
        ``(length, dim / 2)`` with `position_ids`, else ``(batch, seq_len, dim / 2)``.
    position_ids
        ``(batch, seq_len)``: rows of the caches.
    opset
        The model's, 23 to 28; the operator has not changed since.
    interleaved
        1: the dimensions of a pair lie side by side; 0: half of the turned dimensions apart.
    num_heads
        Needed where X has 3 dimensions.
    rotary_embedding_dim
        How many dimensions are turned; 0 is all.

    Returns
    -------
    array
        Of X's shape, array type and dtype.

    Raises
    ------
    TypeError, ValueError
        As `headwise.rotary_embedding`, which computes it.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> from headwise.adapters.onnx import rotary_embedding
    >>> x = np.ones((1, 1, 2, 2))
    >>> rotary_embedding(x, *headwise.rotary_caches(2, 2), [[0, 1]])[0, 0].round(2)
    array([[ 1.  ,  1.  ],
           [-0.3 ,  1.38]])
    """
    check_opset(opset, "RotaryEmbedding")
    one_of("interleaved", interleaved, (0, 1))
    return rotary.rotary_embedding(
        X,
        cos_cache,
        sin_cache,
        position_ids,
        interleaved=bool(interleaved),
        rotary_dim=rotary_embedding_dim or None,
        num_heads=num_heads,
    )


def __getattr__(name: str) -> Any:
    if name in {"Attention", "RotaryEmbedding"}:
        return _operators()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _operators() -> dict[str, type[OpRun]]:
    """Return the operators as the evaluator of onnx takes them."""
    try:
        from onnx.reference.op_run import OpRun
    except ImportError:
        raise ImportError(
            "onnx's evaluator needs the package onnx: pip install 'headwise[onnx]'"
        ) from None

    class Operator(OpRun):
        op_domain = ""

        @property
        def opset(self) -> int:
            return int(self.run_params["opsets"][self.op_domain])

        def run(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
            """Leave outputs without a name out: onnx would give them to inputs without one."""
            run: Any = super().run
            pairs = zip(self.output, run(*args, **kwargs), strict=False)
            return tuple(x if name else None for name, x in pairs)

    class Attention(Operator):
        """ONNX's ``Attention``, computed by `headwise.adapters.onnx.attention`."""

        def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
            named = len(self.output) > 3 and self.output[3] != ""
            if not named:
                attributes["qk_matmul_output_mode"] = None
            outputs = attention(*inputs, opset=self.opset, **attributes)
            return outputs if named else outputs[:3]

    class RotaryEmbedding(Operator):
        """ONNX's ``RotaryEmbedding``, computed by `headwise.rotary_embedding`."""

        def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
            return (rotary_embedding(*inputs, opset=self.opset, **attributes),)

    return {"Attention": Attention, "RotaryEmbedding": RotaryEmbedding}
