"""The share of the roof that each peer reaches, as bars."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import in_short
from benchmarks.results import OURS, CaseResult, Results

COLORS = {
    OURS: "#d1495b",
    "torch": "#6c8ebf",
    "onnxruntime": "#7fb685",
    "openvino": "#b49fcc",
    "jax": "#e0b46c",
    "numpy": "#b8bcc2",
}
BAR = 0.13  # inches
LABEL: dict[str, Any] = {
    "va": "center",
    "fontsize": 7,
    "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.5},
}


def draw(results: Results, path: Path) -> None:
    """Write a picture of the results; its kind follows from the suffix. Same results, same bytes.

    Raises
    ------
    ImportError
        Where matplotlib is not installed.
    """
    cases = [r for r in results.cases if r.roof_seconds and any(map(r.share, r.outcomes))]
    peers = [p for p in COLORS if any(r.share(p) for r in cases)]
    with canvas(path, columns=1, figsize=(7.5, _height(cases, peers))) as (figure, (axes,)):
        _draw_bars(axes, cases, peers)
        _label(axes, cases, peers)
        figure.supxlabel(_caption(results.machine), x=0.01, ha="left", fontsize=6.5, color="0.35")


@contextmanager
def canvas(path: Path, columns: int, figsize: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its axes; what is drawn there is written to ``path`` at the end."""
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    settings = {"svg.hashsalt": "headwise", "svg.fonttype": "none", "font.size": 8}
    with matplotlib.rc_context(settings):
        figure, axes = pyplot.subplots(
            1, columns, figsize=figsize, layout="constrained", squeeze=False
        )
        yield figure, axes[0]
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=160, metadata=_metadata(path))
        pyplot.close(figure)


def _height(cases: list[CaseResult], peers: list[str]) -> float:
    return 1.3 + BAR * len(cases) * (len(peers) + 1.5)


def _draw_bars(axes: Any, cases: list[CaseResult], peers: list[str]) -> None:
    step = len(peers) + 1.5
    for n, result in enumerate(cases):
        for i, peer in enumerate(peers):
            share = (result.share(peer) or 0) * 100
            axes.barh(n * step + i, share, height=0.86, color=COLORS[peer])
            if peer == OURS and peer in result.outcomes:
                text = f"{share:.0f}" if share else result.outcomes[peer].status
                axes.text(share + 0.8, n * step + i, text, **LABEL)
        if result.case.aim:
            low, high = n * step - 0.6, n * step + len(peers) - 0.4
            axes.plot([result.case.aim * 100] * 2, [low, high], color="0.25", lw=0.8, ls=":")


def _label(axes: Any, cases: list[CaseResult], peers: list[str]) -> None:
    step, middle = len(peers) + 1.5, (len(peers) - 1) / 2
    names = [f"{r.case.name}\n{r.case.shape}" for r in cases]
    axes.set_yticks([n * step + middle for n in range(len(cases))], names, fontsize=7)
    axes.set_ylim(len(cases) * step - 0.75, -1.25)
    axes.set_xlim(0, 105)
    axes.set_xlabel("% of the roof (fused multiply-adds or memory bandwidth); dotted: aim")
    axes.xaxis.set_major_locator(importlib.import_module("matplotlib.ticker").MultipleLocator(20))
    axes.grid(axis="x", color="0.9", lw=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    patch: Any = importlib.import_module("matplotlib.patches").Patch
    handles = [patch(color=COLORS[peer], label=peer) for peer in peers]
    axes.figure.legend(handles=handles, loc="outside upper left", ncols=len(peers), frameon=False)


def _caption(machine: dict[str, Any]) -> str:
    roofs = machine["roofs"]
    kept = [f"{name}: {rate:g}" for name, rate in roofs.items() if not name.endswith("1 thread")]
    peers = [text for text in machine["peers"].values() if ":" not in text]
    return "\n".join(
        [
            in_short(machine),
            f"roofs in GFLOP/s and GB/s: {'; '.join(kept)}",
            "; ".join(peers),
        ]
    )


def _metadata(path: Path) -> dict[str, None]:
    return {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}.get(
        path.suffix, {}
    )
