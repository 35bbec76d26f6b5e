"""The statistics of the second pass: what is added up from the final weights.

`headwise.statistics` is their public face.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from headwise._numbers import whole_number


@dataclass(frozen=True)
class SecondPass:
    """What is added up, in a second pass, from the final weights of all queries and keys.

    Attributes
    ----------
    name, formula, meaning, unit
        As shown in tables and pages.
    shape
        Of the result, in words: what there is one number of.
    positional
        Whether it depends on where query 0 stands on the keys' axis.
    options
        What the function of this name was called with.
    """

    name: str
    formula: str
    meaning: str
    unit: str = "weight"
    shape: str = "(..., num_heads, kv_len)"
    positional: bool = False
    options: dict[str, Any] = field(default_factory=dict, compare=False)


_DISTANCES = "(..., num_heads, distances)"
_COLLECTED = (
    SecondPass(
        "received", "C_j = Σ_i p_ij", "all weight that a key gets from the queries", "queries"
    ),
    SecondPass(
        "normalized_received",
        "C_j / number of queries that see j",
        "mean weight that a key gets from the queries that see it",
    ),
    SecondPass(
        "viewer_count", "number of queries that see j", "how many queries see a key", "queries"
    ),
    SecondPass(
        "window_received",
        "Σ p_ij over the last w queries i that see a key",
        "weight that a key gets from the last queries",
        "queries",
        options={"w": 32},
    ),
    SecondPass(
        "value_weighted",
        "C_j ‖v_j W_O‖, or C_j ‖v_j‖ without a projection",
        "how much of the outputs comes from a key",
        "value",
        options={"projection": None},
    ),
    SecondPass(
        "offset_mass",
        "h(d) = Σ p_ij over i + offset - j = d",
        "all weight at a distance",
        "queries",
        _DISTANCES,
        positional=True,
        options={"bins": "all"},
    ),
    SecondPass(
        "normalized_offset_mass",
        "h(d) / number of visible pairs at d",
        "mean weight of the pairs of query and key at a distance",
        "weight",
        _DISTANCES,
        positional=True,
        options={"bins": "all"},
    ),
    SecondPass(
        "pair_count",
        "number of visible pairs with i + offset - j = d",
        "how many pairs of query and key there are at a distance",
        "pairs",
        _DISTANCES,
        positional=True,
        options={"bins": "all"},
    ),
    SecondPass(
        "block_map",
        "mean and max of p_ij over blocks of queries and keys",
        "the matrix of weights, made smaller",
        "weight",
        "(..., num_heads, rows, columns)",
        options={"rows": 128, "columns": 128},
    ),
    SecondPass(
        "top_keys",
        "the k largest p_ij of each i and their j, ties to the lower key",
        "what each query attends to most",
        "weight",
        "(..., num_heads, query_len, k)",
        options={"k": 4},
    ),
    SecondPass(
        "head_products",
        "Σ p^a p^b",
        "what two heads look at both",
        "queries",
        "(..., num_heads, num_heads)",
    ),
    SecondPass(
        "head_similarity",
        "Σ p^a p^b / (‖p^a‖ ‖p^b‖)",
        "how alike two heads look, 0 to 1",
        "cosine",
        "(..., num_heads, num_heads)",
    ),
)

SECOND_PASS: dict[str, SecondPass] = {statistic.name: statistic for statistic in _COLLECTED}


def window_received(w: int = 32) -> SecondPass:
    """Return the statistic ``window_received`` over the last ``w`` queries that see a key.

    Li et al. 2024 (SnapKV) choose the keys to keep by it.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 1, 4, 8))
    >>> last = headwise.statistics.window_received(2)
    >>> seen = headwise.observe(x, x, x, headwise.causal(), statistics=last)
    >>> seen.window_received.round(3)
    array([[[0.583, 0.583, 0.583, 0.25 ]]])
    """
    return _with("window_received", w=whole_number("w", w, least=1))


def value_weighted(projection: Any = None) -> SecondPass:
    """Return the statistic ``value_weighted``: received weight times the length of the value.

    Parameters
    ----------
    projection
        ``(num_heads, value_dim, d_model)``: each head's part of the output projection, so that
        values are measured where they arrive (Kobayashi et al. 2020). None: as they are.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.eye(2).reshape(1, 1, 2, 2)
    >>> wanted = headwise.statistics.value_weighted(np.full((1, 2, 1), 3.0))
    >>> headwise.observe(x, x, x, headwise.causal(), statistics=wanted).value_weighted.round(2)
    array([[[3.99, 2.01]]])
    """
    return _with("value_weighted", projection=projection)


def offset_mass(bins: str = "all") -> SecondPass:
    """Return the statistic ``offset_mass``: for every distance, or in classes that grow.

    Parameters
    ----------
    bins
        ``"all"`` distances, or ``"log"``: one by one up to 8, then in four classes for each
        doubling, and likewise ahead.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 1, 4, 8))
    >>> wanted = headwise.statistics.offset_mass("log")
    >>> mass = headwise.observe(x, x, x, headwise.causal(), statistics=wanted).offset_mass
    >>> mass.values.round(2), mass.first, mass.last
    (array([[[0.  , 0.  , 0.  , 2.08, 1.08, 0.58, 0.25]]]),
     array([-3, -2, -1,  0,  1,  2,  3]),
     array([-3, -2, -1,  0,  1,  2,  3]))
    """
    return _with("offset_mass", bins=_check_bins(bins))


def normalized_offset_mass(bins: str = "all") -> SecondPass:
    """Return `offset_mass` divided by the number of visible pairs, 0 where there are none.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 1, 4, 8))
    >>> wanted = headwise.statistics.normalized_offset_mass("log")
    >>> seen = headwise.observe(x, x, x, headwise.causal(), statistics=wanted)
    >>> seen.normalized_offset_mass.values.round(2)
    array([[[0.  , 0.  , 0.  , 0.52, 0.36, 0.29, 0.25]]])
    """
    return _with("normalized_offset_mass", bins=_check_bins(bins))


def pair_count(bins: str = "all") -> SecondPass:
    """Return the statistic ``pair_count``: what `normalized_offset_mass` divides by.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 1, 4, 8))
    >>> wanted = headwise.statistics.pair_count("log")
    >>> headwise.observe(x, x, x, headwise.causal(), statistics=wanted).pair_count.values
    array([[[0, 0, 0, 4, 3, 2, 1]]])
    """
    return _with("pair_count", bins=_check_bins(bins))


def block_map(rows: int = 128, columns: int = 128) -> SecondPass:
    """Return the statistic ``block_map``: a map of at most so many rows and columns.

    Blocks are as small as that allows, all of one size but for the last ones.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 1, 4, 8))
    >>> wanted = headwise.statistics.block_map(2, 2)
    >>> found = headwise.observe(x, x, x, headwise.causal(), statistics=wanted).block_map
    >>> found.mean.round(3), found.max
    (array([[[[0.5  , 0.   ],
             [0.292, 0.208]]]]), array([[[[1.        , 0.        ],
             [0.33333333, 0.33333333]]]]))
    """
    sizes = {"rows": rows, "columns": columns}
    return _with("block_map", **{name: whole_number(name, n, least=1) for name, n in sizes.items()})


def top_keys(k: int = 4) -> SecondPass:
    """Return the statistic ``top_keys``: the ``k`` largest weights of each query and their keys.

    Exact; of equal weights the one of the lower key comes first. Where a query has fewer than ``k``
    keys with a weight above 0, -1 stands for the others.

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = 2 * np.eye(3).reshape(1, 1, 3, 3)
    >>> wanted = headwise.statistics.top_keys(2)
    >>> top = headwise.observe(x, x, x, headwise.causal(), statistics=wanted).top_keys
    >>> top.keys, top.weights.round(2)
    (array([[[[ 0, -1],
             [ 1,  0],
             [ 2,  0]]]]), array([[[[1.  , 0.  ],
             [0.91, 0.09],
             [0.83, 0.08]]]]))
    """
    return _with("top_keys", k=whole_number("k", k, least=1))


def stripe(
    target_ids: Any, source_ids: Any = None, *, shift: int = 0, name: str = "stripe"
) -> SecondPass:
    """Return a statistic of each query: its weight on the keys where a token stands again.

    ``Σ_j p_ij [source_{j + shift} = target_i]`` over the keys j up to the query's own position.
    With ``shift=0`` it is the weight on copies of the query's token, itself among them; with
    ``shift=-1`` on the tokens that came after earlier copies, as induction heads look at them.

    Parameters
    ----------
    target_ids
        ``(..., query_len)``: whole numbers that are equal where the queries' tokens are.
    source_ids
        ``(..., kv_len)``: likewise of the keys; None: the queries' tokens are the keys'.
    shift
        How far behind a key its token is looked up.
    name
        The attribute of the observation that holds it, ``(..., num_heads, query_len)``.

    Raises
    ------
    TypeError, ValueError
        For ids that are no whole numbers, and a name that is another statistic's or no identifier.

    Notes
    -----
    Olsson et al. 2022, "In-context Learning and Induction Heads".

    Examples
    --------
    >>> import numpy as np, headwise
    >>> x = np.zeros((1, 1, 4, 8))
    >>> after = headwise.statistics.stripe([5, 8, 5, 8], shift=-1, name="induction")
    >>> headwise.observe(x, x, x, headwise.causal(), statistics=after).induction.round(2)
    array([[[0.  , 0.  , 0.33, 0.25]]])
    """
    if not isinstance(name, str) or not name.isidentifier() or name.startswith("_"):
        raise ValueError(f"name must be an identifier such as 'induction', got {name!r}")
    return SecondPass(
        name,
        f"Σ_j p_ij [source_{{j{shift:+d}}} = target_i], j ≤ i",
        "weight on the keys where the query's token stands",
        "weight",
        "(..., num_heads, query_len)",
        positional=True,
        options={
            "target_ids": target_ids,
            "source_ids": target_ids if source_ids is None else source_ids,
            "shift": whole_number("shift", shift, least=None),
        },
    )


def _with(name: str, **options: Any) -> SecondPass:
    return replace(SECOND_PASS[name], options=options)


def _check_bins(bins: Any) -> str:
    if bins not in {"all", "log"}:
        raise ValueError(f"bins must be 'all' or 'log', got {bins!r}")
    return str(bins)
