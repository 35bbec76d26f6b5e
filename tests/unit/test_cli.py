"""The command line: what it prints and writes, its exit codes, and errors without tracebacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwise import cli, cli_look

ROOT = [sys.executable, "-m", "headwise.cli"]


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100", **(env or {})}
    return subprocess.run(
        [*ROOT, *arguments], capture_output=True, text=True, check=False, env=environment
    )


def write_arrays(path: str, **more: Any) -> str:
    rng = np.random.default_rng(0)
    arrays = {
        role: rng.normal(size=(12, 32)).astype(np.float32) for role in ("query", "key", "value")
    }
    np.savez(path, **arrays, **more)
    return path


def test_look_without_arguments_shows_the_sample() -> None:
    result = run("look")
    assert (result.returncode, result.stderr) == (0, "")
    out = result.stdout
    for words in ("SmolLM2-135M-Instruct", "156 tokens", "9 layers × 9 heads", "causal", "time:"):
        assert words in out
    assert "\x1b" not in out  # not a terminal: no colours
    induction = next(line for line in out.splitlines() if line.startswith("induction  "))
    assert "18.6 0.58" in induction
    grid = [line.split() for line in out.splitlines() if line.strip()[:3] in {"18 ", "17 "}]
    assert grid[1][7] == "0.58"
    assert Path("headwise.html").stat().st_size < 3_000_000


def test_everything_that_can_be_written_is() -> None:
    names = [f"heads.{ending}" for ending in ("png", "svg", "csv", "json")]
    options = [part for name in names for part in (f"--{name[6:]}", name)]
    assert run("look", "--output", "page.html", *options).returncode == 0
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert Path("heads.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path("heads.svg").read_text(encoding="utf-8")
    assert not Path("headwise.html").exists()


def test_quiet_and_no_page_and_measure() -> None:
    result = run("look", "--quiet", "--no-page")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not list(Path().iterdir())
    assert "previous_token: " in run("look", "--no-page", "--measure", "previous_token").stdout


@pytest.mark.parametrize(("flags", "coloured"), [((), True), (("--no-color",), False)])
def test_colours_on_a_terminal(flags: tuple[str, ...], coloured: bool) -> None:
    out = run(
        "look",
        "--no-page",
        *flags,
        env={"FORCE_COLOR": "1", "COLORTERM": "truecolor", "TERM": "xterm-256color"},
    ).stdout
    assert ("48;2;" in out) is coloured


def test_look_at_a_file_of_flat_arrays() -> None:
    path = write_arrays("a.npz")
    result = run("look", path, "--num-heads", "4", "--causal", "--no-page")
    assert result.returncode == 0, result.stderr
    assert "12 tokens · 1 layers × 4 heads · causal" in result.stdout
    assert "every key visible" in run("look", path, "--num-heads", "4", "--no-page").stdout


def test_a_file_of_many_heads_prints_a_narrow_grid() -> None:
    path = write_arrays("a.npz")
    out = run("look", path, "--num-heads", "32", "--no-page", env={"COLUMNS": "80"}).stdout
    assert max(len(line) for line in out.splitlines()) <= 80


ERRORS = {
    "missing file": (("none.npz",), "none.npz does not exist"),
    "no heads said": (("a.npz",), "say how many heads it has with --num-heads"),
    "heads do not divide": (("a.npz", "--num-heads", "5"), "5 heads do not divide"),
    "no folder": (("--output", "no/page.html"), "the folder no does not exist"),
    "wrong ending": (("--png", "page.jpg"), "--png: page.jpg must end in .png"),
    "no such measure": (("--measure", "beauty"), "--measure must be entropy"),
    "bad offset": (("--query-offset", "middle"), 'query_offset must be "upper_left"'),
    "bad threads": (("--threads", "0"), "num_threads must be at least 1"),
    "a mask that blocks everything": (("masked.npz", "--num-heads", "4"), "blocks every key"),
    "a mask of another shape": (("short.npz", "--num-heads", "4"), "mask must broadcast"),
    "lengths that differ": (("cross.npz", "--causal"), "query_offset"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_are_one_line_and_leave_nothing(what: str) -> None:
    write_arrays("a.npz")
    write_arrays("masked.npz", mask=np.zeros((12, 12), dtype=bool))
    write_arrays("short.npz", mask=np.ones((12, 11), dtype=bool))
    np.savez(
        "cross.npz", query=np.ones((2, 3, 4)), key=np.ones((2, 5, 4)), value=np.ones((2, 5, 4))
    )
    arguments, words = ERRORS[what]
    result = run("look", *arguments)
    assert result.returncode == 1
    assert result.stderr.startswith("headwise: error: ")
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not Path("headwise.html").exists()


def test_wrong_usage_is_code_2() -> None:
    assert run("look", "--nonsense").returncode == 2
    assert run().returncode == 2


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from headwise import cli_files

    found = cli_files.find_spec
    monkeypatch.setattr(
        cli_files, "find_spec", lambda name: None if name == "rich" else found(name)
    )
    assert cli.main(["look"]) == 1
    assert "needs rich: pip install 'headwise[look]'" in capsys.readouterr().err


def test_info_says_what_and_why() -> None:
    unset = {"HEADWISE_INSTRUCTION_SET": "", "HEADWISE_NUM_THREADS": "", "OMP_NUM_THREADS": ""}
    out = run("info", env=unset).stdout
    assert "(the best of" in out
    assert "(the processors this process may use)" in out or "quota" in out


def test_info_follows_the_environment() -> None:
    out = run(
        "info", env={"HEADWISE_INSTRUCTION_SET": "scalar", "HEADWISE_NUM_THREADS": "3"}
    ).stdout
    assert "scalar (the environment variable HEADWISE_INSTRUCTION_SET)" in out
    assert "3 (the environment variable HEADWISE_NUM_THREADS)" in out
    wrong = run("info", env={"HEADWISE_INSTRUCTION_SET": "mmx"})
    assert wrong.returncode == 1
    assert "HEADWISE_INSTRUCTION_SET is 'mmx', but this machine has" in wrong.stderr


def test_ctrl_c_is_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_look, "_of_recording", interrupt)
    assert cli.main(["look"]) == 130


def test_a_full_disk_is_an_error_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert cli.main(["look", "--quiet"]) == 1
    assert "headwise.html cannot be written: No space left on device" in capsys.readouterr().err
