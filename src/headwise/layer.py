"""The multi-head attention layer: projections, heads, attention, and the output projection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from headwise._arrays import Array, like, rounded, to_operand, to_working
from headwise._errors import shape_text
from headwise._prepare import Options
from headwise.heads import combine_heads, multi_head_attention_per_head, split_heads
from headwise.observation import Observation, observe
from headwise.statistics import Statistic

_IN_PROJECTIONS = ("query", "key", "value")


@dataclass(frozen=True)
class Projection:
    """An affine map ``x · weightᵀ + bias``, with ``weight`` ``(out_features, in_features)``."""

    name: str
    weight: Array
    bias: Array | None

    @classmethod
    def make(cls, name: str, weight: Any, bias: Any) -> Projection:
        """Check the arrays of one projection."""
        w = to_operand(f"{name}_weight", weight)
        b = None if bias is None else to_operand(f"{name}_bias", bias)
        if w.ndim != 2:
            raise ValueError(
                f"{name}_weight must have 2 dimensions (out_features, in_features), got shape "
                f"{shape_text(w.shape)}"
            )
        if b is not None and b.shape != w.shape[:1]:
            raise ValueError(
                f"{name}_bias must have shape {shape_text(w.shape[:1])}, one number for each "
                f"output feature of {name}_weight, got {shape_text(b.shape)}"
            )
        return cls(name, to_working(w), None if b is None else to_working(b))

    def __call__(self, x: Array) -> Array:
        """Apply to ``(..., in_features)``; the result has the input's dtype."""
        if x.ndim < 2 or x.shape[-1] != self.weight.shape[1]:
            raise ValueError(
                f"{self.name} must have shape (..., {self.name}_len, {self.weight.shape[1]}), got "
                f"{shape_text(x.shape)}"
            )
        projected = to_working(x) @ self.weight.T
        return rounded(projected if self.bias is None else projected + self.bias, x.dtype)


class MultiHeadAttention:
    """Multi-head attention with its four projections, for inference.

    ``output = combine_heads(attention(split_heads(query · Wqᵀ + bq), …)) · Woᵀ + bo``, equal to
    PyTorch's ``nn.MultiheadAttention`` (``batch_first=True``) to rounding.

    Parameters
    ----------
    query_weight, key_weight, value_weight, output_weight
        ``(out_features, in_features)``, as PyTorch and most model files store them.
    num_heads
        Heads of the query projection.
    num_kv_heads
        Heads of the key and value projections, where fewer; None is ``num_heads``.
    biases
        Mapping with any of ``"query"``, ``"key"``, ``"value"``, ``"output"``.

    Raises
    ------
    TypeError, ValueError
        Where the arrays do not fit one another or the heads.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> rng = np.random.default_rng(0)
    >>> w = [rng.normal(size=(64, 64)).astype(np.float32) for _ in range(4)]
    >>> layer = headwise.MultiHeadAttention(*w, num_heads=4)
    >>> x = rng.normal(size=(2, 10, 64)).astype(np.float32)
    >>> layer(x).shape, layer.head_outputs(x).shape
    ((2, 10, 64), (2, 4, 10, 16))
    """

    def __init__(
        self,
        query_weight: Any,
        key_weight: Any,
        value_weight: Any,
        output_weight: Any,
        *,
        num_heads: int,
        num_kv_heads: int | None = None,
        biases: Mapping[str, Any] | None = None,
    ) -> None:
        biases = dict(biases or {})
        names = (*_IN_PROJECTIONS, "output")
        unknown = set(biases) - set(names)
        if unknown:
            raise ValueError(f"biases may hold {', '.join(names)}, got {sorted(unknown)}")
        weights = (query_weight, key_weight, value_weight, output_weight)
        self._projections = {
            name: Projection.make(name, weight, biases.get(name))
            for name, weight in zip(names, weights, strict=True)
        }
        self.num_heads = num_heads
        self.num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        self._check_heads()

    def _check_heads(self) -> None:
        """Refuse at once what would fail at the first call."""
        q, k, v, o = (self._projections[name].weight for name in (*_IN_PROJECTIONS, "output"))
        heads = split_heads(q.T, self.num_heads)
        kv_heads, values = split_heads(k.T, self.num_kv_heads), split_heads(v.T, self.num_kv_heads)
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads must be a multiple of num_kv_heads, got {self.num_heads} and "
                f"{self.num_kv_heads}"
            )
        if heads.shape[-1] != kv_heads.shape[-1]:
            raise ValueError(
                f"query and key heads must have the same head_dim, got {heads.shape[-1]} and "
                f"{kv_heads.shape[-1]} from weights {shape_text(q.shape)} and {shape_text(k.shape)}"
            )
        features = self.num_heads * values.shape[-1]
        if o.shape[1] != features:
            raise ValueError(
                f"output_weight must have {features} input features (num_heads · value_dim), got "
                f"shape {shape_text(o.shape)}"
            )

    @classmethod
    def from_torch_state_dict(
        cls, state_dict: Mapping[str, Any], num_heads: int, prefix: str = ""
    ) -> MultiHeadAttention:
        """Build from the state dict of a PyTorch ``nn.MultiheadAttention``.

        Parameters
        ----------
        state_dict
            With ``in_proj_weight`` (or ``q_proj_weight``, ``k_proj_weight``, ``v_proj_weight``),
            ``out_proj.weight`` and, where the module has them, the biases.
        num_heads
            The module's ``num_heads``, which its state dict does not hold.
        prefix
            What the names begin with, such as ``"encoder.layers.0.self_attn."``.

        Raises
        ------
        KeyError
            Where an array is missing.
        ValueError
            Where the module has ``bias_k`` and ``bias_v``, which are not supported.
        """
        state = {
            name.removeprefix(prefix): x
            for name, x in state_dict.items()
            if name.startswith(prefix)
        }
        if "bias_k" in state or "bias_v" in state:
            raise ValueError("state_dict has bias_k and bias_v (add_bias_kv=True): not supported")
        biases = dict(zip(_IN_PROJECTIONS, _thirds(state.get("in_proj_bias")), strict=True))
        biases["output"] = state.get("out_proj.bias")
        return cls(
            *_torch_weights(state, prefix),
            num_heads=num_heads,
            biases={name: bias for name, bias in biases.items() if bias is not None},
        )

    def __call__(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        **options: Unpack[Options],
    ) -> Any:
        """Attend and project: ``(..., query_len, out_features)``.

        ``key`` None is ``query`` (self-attention), ``value`` None is ``key``; the rest as in
        `headwise.scaled_dot_product_attention`. True in a boolean ``mask`` means may attend;
        `headwise.adapters.torch.mask_from_multihead_attention` converts PyTorch's.
        """
        heads = self.head_outputs(query, key, value, mask, **options)
        combined = combine_heads(to_operand("heads", heads))
        return like(query, self._projections["output"](combined))

    def head_outputs(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        **options: Unpack[Options],
    ) -> Any:
        """Return what each head gives, still apart: ``(..., num_heads, query_len, d_k)``."""
        q, k, v = self._project(query, key, value)
        return multi_head_attention_per_head(
            q,
            k,
            v,
            self.num_heads,
            mask,
            num_kv_heads=self.num_kv_heads,
            **options,
        )

    def observe(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        mask: Any = None,
        *,
        statistics: str | Statistic | Iterable[str | Statistic] | None = None,
        **options: Unpack[Options],
    ) -> Observation:
        """Look at the heads: `headwise.observe` on the projected and split inputs."""
        q, k, v = self._project(query, key, value)
        return observe(
            split_heads(q, self.num_heads),
            split_heads(k, self.num_kv_heads),
            split_heads(v, self.num_kv_heads),
            mask,
            statistics=statistics,
            **options,
        )

    def _project(self, query: Any, key: Any, value: Any) -> list[Any]:
        """Return the projected query, key and value, of the query's array type."""
        key = query if key is None else key
        value = key if value is None else value
        return [
            like(query, self._projections[name](to_operand(name, x)))
            for name, x in zip(_IN_PROJECTIONS, (query, key, value), strict=True)
        ]

    def __repr__(self) -> str:
        q, o = self._projections["query"].weight, self._projections["output"].weight
        return (
            f"MultiHeadAttention({q.shape[1]} -> {o.shape[0]}, num_heads={self.num_heads}, "
            f"num_kv_heads={self.num_kv_heads}, {q.dtype})"
        )


def _thirds(x: Any) -> list[Any]:
    """Cut what PyTorch keeps in one array into query's, key's and value's part."""
    if x is None:
        return [None] * 3
    array = to_operand("in_proj", x)
    if array.shape[0] % 3:
        raise ValueError(
            f"in_proj_weight and in_proj_bias must hold three equal parts, got shape "
            f"{shape_text(array.shape)}"
        )
    return list(np.split(array, 3))


def _torch_weights(state: Mapping[str, Any], prefix: str) -> list[Any]:
    try:
        if "in_proj_weight" in state:
            return [*_thirds(state["in_proj_weight"]), state["out_proj.weight"]]
        separate = [state[f"{letter}_proj_weight"] for letter in "qkv"]
        return [*separate, state["out_proj.weight"]]
    except KeyError as error:
        raise KeyError(
            f"state_dict has no {prefix}{error.args[0]}: expected the names of PyTorch's "
            "nn.MultiheadAttention; give what they begin with as prefix="
        ) from None
