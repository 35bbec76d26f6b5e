"""Tests that must fail: kernels with a planted fault are caught by the kernel tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = ["-std=c++20", "-O1", "-ffp-contract=off", "-DHEADWISE_TABLE=scalar"]
ONLY_SCALAR = """
#include "kernels.hpp"
namespace headwise {
extern const Kernels kernels_scalar;
const Kernels* const* built_kernels(int* count) {
  static const Kernels* const tables[] = {&kernels_scalar};
  *count = 1;
  return tables;
}
bool runs_here(const Kernels&) { return true; }
}
"""

# What is planted: a file of cpp/, the words there, and the fault in their place.
FAULTS = {
    "sums are not rescaled when the maximum rises": (
        "products.hpp",
        "S::fma(S::load(place + h * kStrip<S>), S::load(carry + v * S::width), sums[h][v])",
        "S::add(S::load(place + h * kStrip<S>), sums[h][v])",
    ),
    "the last key of the band is hidden": (
        "visibility.hpp",
        "row.position + leaf.right + 1)",
        "row.position + leaf.right)",
    ),
    "the boolean mask is upside down": (
        "visibility.hpp",
        "seen[k] = bytes[k] != 0",
        "seen[k] = bytes[k] == 0",
    ),
    "grouped heads are interleaved": (
        "visibility.hpp",
        "range.kv_head * a.group() + range.begin / a.query_len",
        "range.kv_head + range.begin / a.query_len * a.num_kv_heads",
    ),
    "ranges that do not touch count as one": (
        "visibility.hpp",
        "touch && one.exact && other.exact",
        "one.exact && other.exact",
    ),
    "a doubtful row is taken at its word": (
        "visibility.hpp",
        "if (row.sight.exact || near.empty()) return {near, nullptr, 0};",
        "return {near, nullptr, 0};",
    ),
    "the cap comes after the bias": (
        "scores.hpp",
        "if (units.cap > 0) score = S::mul(cap, tanh<S>(score));",
        "score = units.cap > 0 ? S::mul(cap, score) : score;",
    ),
    "a sink is left out of the total": (
        "endings.hpp",
        "if (n.at(kTotal, r) != 0) whole[r] +=",
        "if (n.at(kTotal, r) != 0) whole[r] += 0 *",
    ),
    "float16 loses its smallest numbers": (
        "short_floats.hpp",
        "(tiny ? 0x1p-14f : 0.0f)",
        "0.0f",
    ),
    "entropy forgets the rise of the maximum": (
        "observers.hpp",
        "S::fma(fall, S::load(n.row(kTotal) + r), S::load(n.row(kScored) + r))",
        "S::load(n.row(kScored) + r)",
    ),
    "ties of chunks go to the higher key": (
        "observers.hpp",
        "const bool rises = maximum < part.at(kMaximum, r);",
        "const bool rises = maximum <= part.at(kMaximum, r);",
    ),
    "a row of few queries forgets the keys before": (
        "row_products.hpp",
        "S::fma(S::load(place), S::set(correction[r]), totals[r][v])",
        "totals[r][v]",
    ),
    "the key of the largest score is only roughly known": (
        "highest.hpp",
        "first = scores[k * lanes] >= largest ? k : first",
        "first = 0",
    ),
    "a hidden NaN gets in": ("blocks.hpp", "if (!b.careful) {", "if (true) {"),
}  # fmt: skip


def build_and_run(folder: Path, fault: tuple[str, str, str] | None) -> int:
    """Build the scalar kernels' test in a copy of cpp/, with a fault or without; run it."""
    cpp = folder / "cpp"
    shutil.copytree(ROOT / "cpp", cpp)
    (cpp / "dispatch.cpp").write_text(ONLY_SCALAR)
    if fault:
        path, words = cpp / fault[0], fault[1]
        text = path.read_text(encoding="utf-8")
        assert words in text, f"{fault[0]} no longer says {words!r}: plant this fault elsewhere"
        path.write_text(text.replace(words, fault[2]), encoding="utf-8")
    sources = [cpp / "kernels.cpp", cpp / "dispatch.cpp", cpp / "tests" / "kernel_test.cpp"]
    simd = '-DHEADWISE_SIMD="simd_reference.hpp"'
    program = folder / "kernel_test"
    subprocess.run(["c++", *FLAGS, simd, f"-I{cpp}", *sources, "-o", program], check=True)
    return subprocess.run([program], check=False, capture_output=True).returncode


def test_the_kernels_as_they_are_pass(tmp_path: Path) -> None:
    assert build_and_run(tmp_path, None) == 0


@pytest.mark.parametrize("what", FAULTS)
def test_a_planted_fault_is_caught(what: str, tmp_path: Path) -> None:
    assert build_and_run(tmp_path, FAULTS[what]) == 1
