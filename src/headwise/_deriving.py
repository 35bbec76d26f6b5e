"""Statistics that are made from several numbers of the kernels."""

from __future__ import annotations

import numpy as np

from headwise._arrays import Array
from headwise.reference import ratio


def derive(name: str, rows: dict[str, Array], sinks: Array | None) -> Array:
    """Return a statistic from the kernel's numbers of each row."""
    if name == "normalized_entropy":
        outcomes = rows["visible_count"]
        if sinks is not None:
            outcomes = outcomes + np.isfinite(sinks).reshape((-1, 1)[: outcomes.ndim])
        norm = np.log(np.maximum(outcomes, 1))
        return np.asarray(ratio(rows["entropy"], norm), rows["entropy"].dtype)
    if name == "normalized_distance":
        mean = rows["visible_distance"] / np.maximum(rows["visible_count"], 1)
        return np.asarray(ratio(rows["distance"], mean), rows["distance"].dtype)
    return rows[name]
