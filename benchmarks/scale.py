"""All heads of a real model over a long text: ``python -m benchmarks.scale --model PATH``.

The same forward pass, each way in a process of its own: with PyTorch's fused attention, with
headwise, and with headwise watching every head. Printed are the seconds of the pass, the median of
several rounds that take turns, and the most memory the process ever held.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

WAYS = ("sdpa", "headwise", "watched")


def main() -> None:
    """Measure every way and print the table."""
    options = make_parser().parse_args()
    if options.way:
        print(json.dumps(measure(options)))
        return
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in options.ways.split(",")}
    for _ in range(options.rounds):
        for way, runs in found.items():
            runs.append(run_apart(options, way))
    base = statistics.median(run["seconds"] for run in next(iter(found.values())))
    print(f"{options.length:,} tokens, {options.rounds} rounds")
    for way, runs in found.items():
        seconds = statistics.median(run["seconds"] for run in runs)
        peak = max(run["peak"] for run in runs)
        told = ", ".join(sorted({run["seen"] for run in runs if run["seen"]}))
        print(f"{way:10} {seconds:8.2f} s  {seconds / base:5.2f}×  {peak:5.2f} GB  {told}")


def make_parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="a folder, or a .gguf file")
    parser.add_argument("--length", type=int, default=8192, help="tokens (8192)")
    parser.add_argument("--rounds", type=int, default=3, help="of each way (3)")
    parser.add_argument("--ways", default=",".join(WAYS), help="the first one is the base")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    return parser


def run_apart(options: argparse.Namespace, way: str) -> dict[str, Any]:
    """Measure one way in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.scale", "--model", str(options.model)]
    command += ["--length", str(options.length), "--way", way]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{way}: {done.stderr.strip().splitlines()[-1]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Time one forward pass, after a short one that loads everything."""
    from headwise.lens import models

    model = models.load_model(options.model)
    if options.way == "sdpa":
        model.model.set_attn_implementation("sdpa")
    text, _ = model.read("text", "\n\n".join(topics.values()), options.length)
    model.run(text.ids[None, :64])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, seen = time.perf_counter(), ""
    if options.way == "watched":
        atlas = models.look(model, [text])
        strongest = atlas.strongest("induction", 1)[0][0]
        seen = f"{len(atlas.layers) * atlas.num_heads} heads, induction: {strongest}"
    else:
        model.run(text.ids[None])
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": seconds,
        "peak": peak / 1e6,
        "before": before / 1e6,
        "tokens": int(np.size(text.ids)),
        "seen": seen,
    }


if __name__ == "__main__":
    main()
