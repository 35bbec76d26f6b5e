"""One attention call of a model, and who computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from headwise._arrays import Array
from headwise._errors import shape_text
from headwise._mask_kinds import Mask
from headwise._prepare import Options
from headwise.attention import scaled_dot_product_attention
from headwise.observation import Observation, observe
from headwise.statistics import AnyStatistic


@dataclass(frozen=True, eq=False, repr=False)
class AttentionCall:
    """One attention call of a model: what the model's module asks to be computed.

    Attributes
    ----------
    module
        The torch module that asks; `headwise.adapters.transformers.name_layers` tells which of the
        model it is.
    query, key, value
        Tensors ``(batch, num_heads, query_len, head_dim)``, ``(batch, num_kv_heads, kv_len,
        head_dim)`` and ``(batch, num_kv_heads, kv_len, value_dim)``, without gradients. Keys and
        values may be the model's cache: look at them now, they may be written to later.
    mask
        A mask of headwise; None where everything is visible.
    bias
        A tensor to add to the scores, or None.
    scale, softcap
        Numbers; None is ``1/√head_dim``, and no cap.
    sink_logits
        Tensor ``(num_heads,)``, or None.
    real_queries, real_keys
        Which are tokens, and not padding or room in a cache that is still empty: booleans ``(batch
        or 1, query_len)`` and ``(batch or 1, kv_len)``; None where all are.
    query_offset
        Where query 0 stands on the keys' axis; None where that has no meaning (a decoder's queries
        and an encoder's keys), or where the model said it by a dense mask only.
    first_key
        Where key 0 stands in the text: a window's cache lets go of the first ones.
    weights_wanted
        Whether the model was asked for its weights (``output_attentions=True``).

    Examples
    --------
    >>> import torch, headwise
    >>> from headwise.adapters.transformers import AttentionCall
    >>> x = torch.eye(3).reshape(1, 1, 3, 3)
    >>> call = AttentionCall(torch.nn.Identity(), x, x, x, headwise.causal())
    >>> call.attend().shape
    torch.Size([1, 1, 3, 3])
    >>> call.observe("argmax").argmax
    tensor([[[0, 1, 2]]])
    """

    module: Any
    query: Any
    key: Any
    value: Any
    mask: Mask | None = None
    bias: Any = None
    scale: float | None = None
    softcap: float | None = None
    sink_logits: Any = None
    query_offset: int | None = None
    first_key: int = 0
    real_queries: Array | None = None
    real_keys: Array | None = None
    weights_wanted: bool = False

    @property
    def layer_idx(self) -> int | None:
        """The number of the module's layer, where the module has one."""
        number = getattr(self.module, "layer_idx", None)
        return number if isinstance(number, int) else None

    @property
    def options(self) -> Options:
        """What `headwise.observe` and `headwise.scaled_dot_product_attention` take by name.

        Beside query, key, value and mask, which are attributes.
        """
        return {
            "query_offset": self.query_offset,
            "scale": self.scale,
            "bias": self.bias,
            "softcap": self.softcap,
            "sink_logits": self.sink_logits,
        }

    @property
    def scores_shape(self) -> tuple[int, int, int, int]:
        """``(batch, num_heads, query_len, kv_len)``."""
        batch = max(len(self.query), len(self.key))
        return batch, self.query.shape[1], self.query.shape[2], self.key.shape[2]

    def attend(self) -> Any:
        """Compute the call: a tensor ``(batch, num_heads, query_len, value_dim)``."""
        batch, heads, query_len, _ = self.scores_shape
        out = self.query.new_empty((batch, query_len, heads, self.value.shape[-1]))  # as it is used
        return scaled_dot_product_attention(
            self.query, self.key, self.value, self.mask, out=out.transpose(1, 2), **self.options
        )

    def observe(
        self, statistics: str | AnyStatistic | Iterable[str | AnyStatistic] | None = None
    ) -> Observation:
        """Compute the call and look on, as `headwise.observe`: same bits, and statistics."""
        return observe(
            self.query, self.key, self.value, self.mask, statistics=statistics, **self.options
        )

    def __repr__(self) -> str:
        shapes = ", ".join(
            f"{name} {shape_text(getattr(self, name).shape)}" for name in ("query", "key", "value")
        )
        return f"<AttentionCall of {type(self.module).__name__}: {shapes}, mask {self.mask!r}>"


Attend = Callable[[AttentionCall], tuple[Any, Any]]

_attend: ContextVar[Attend | None] = ContextVar("headwise attention calls", default=None)


@contextmanager
def intercept(function: Attend) -> Iterator[None]:
    """Have a function compute the attention calls of all models that run on headwise.

    In this thread (or asyncio task) alone, until the ``with`` block ends; of several nested ones
    the innermost.

    Parameters
    ----------
    function
        Takes an `AttentionCall` and returns output and weights: ``(batch, num_heads, query_len,
        value_dim)``, such as ``call.attend()`` or ``call.observe(...).output``, and ``(batch,
        num_heads, query_len, kv_len)`` or None. With None weights are computed where the model was
        asked for them.

    Examples
    --------
    >>> from headwise.adapters.transformers import intercept
    >>> layers = []
    >>> def look(call):
    ...     seen = call.observe("entropy")
    ...     layers.append((call.layer_idx, seen.entropy.mean()))
    ...     return seen.output, None
    >>> with intercept(look):
    ...     pass  # model(**inputs)
    """
    token = _attend.set(function)
    try:
        yield
    finally:
        _attend.reset(token)


def intercepted() -> bool:
    """Tell whether somebody looks at attention calls now."""
    return _attend.get() is not None


def compute(call: AttentionCall) -> tuple[Any, Any]:
    """Compute a call as it is to be computed now: output, and weights or None."""
    function = _attend.get()
    if function is None:
        return call.attend(), None
    result = function(call)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise TypeError(
            "the function given to intercept must return (output, weights or None), got "
            f"{type(result).__name__}"
        )
    return result
