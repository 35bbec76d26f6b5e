"""``headwise check``: exit codes, what is printed, JSON and JUnit."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from headwise import cli, conformance
from tests.conformance.right import FOUR_LINES

ROOT = Path(__file__).resolve().parents[2]
WRONG = FOUR_LINES.replace(" / np.sqrt(query.shape[-1])", "")
Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def in_a_folder_with_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for variable in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    Path("right.py").write_text(FOUR_LINES)
    Path("wrong.py").write_text(WRONG)


def test_without_a_target_it_helps(capsys: Out) -> None:
    assert cli.main(["check"]) == 0
    out = capsys.readouterr().out
    for words in ("file.py:function", "exit codes: 0", "--junit", "not offered"):
        assert words in out


def test_a_right_file_is_code_0(capsys: Out) -> None:
    assert cli.main(["check", "right.py", "--core"]) == 0
    out = capsys.readouterr().out
    assert "✓ splitting heads             12/12" in out
    assert "53 pass, 5 not offered" in out
    assert "\x1b" not in out


def test_a_wrong_file_is_code_1_and_named(capsys: Out) -> None:
    assert cli.main(["check", "wrong.py", "--core"]) == 1
    out = capsys.readouterr().out
    assert "✗ the attention itself" in out
    assert "Looks like: not scaled" in out
    assert "Remedy: Divide by the root of head_dim" in out
    first = out.split("Looks like: not scaled")[1]
    assert "(core; headwise's contract)" in first.split("✗")[1]
    for words in ("query ", "expected ", "got ", "numbers differ, first at"):
        assert words in first


def test_a_textbook_solution_is_told_that_it_is_right(capsys: Out) -> None:
    assert cli.main(["check", "right.py"]) == 1
    assert "by the textbook this is right" in " ".join(capsys.readouterr().out.split())


def test_the_page_shows_what_is_printed(capsys: Out) -> None:
    page = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
    source, shown = re.findall(
        r'write_text\("""\n(.*?)\.\.\. """|```text\n(.*?)```', page, re.DOTALL
    )
    lines = (line.removeprefix("...").removeprefix(" ") for line in source[0].splitlines())
    Path("my_attention.py").write_text("\n".join(lines))
    assert cli.main(["check", "my_attention.py", "--core"]) == 1
    spent = re.compile(r"\(\d+\.\d s\)")
    assert spent.sub("", capsys.readouterr().out) == spent.sub("", shown[1])


def test_a_module_is_found_in_the_working_folder(capsys: Out) -> None:
    assert cli.main(["check", "right:split_heads", "--core", "--only", "split"]) == 0
    assert "12 pass" in capsys.readouterr().out


USAGE = {
    "no file": (("none.py",), "none.py does not exist"),
    "no module": (("nothing_there",), "found no module nothing_there"),
    "no name": (("a-b",), "a-b is no module, no file that ends in .py and no library"),
    "no function": (("right.py:none",), "none is not there"),
    "no case": (("right.py", "--only", "beauty"), "fits no case: give a group (split, combine"),
    "no time": (("right.py", "--timeout", "0"), "--timeout must be greater than 0"),
    "no role": (("right.py", "--as", "softmax"), "--as must be one of split_heads"),
    "no folder": (("right.py", "--json", "no/a.json"), "--json: the folder no does not exist"),
    "a folder": (("right.py", "--core", "--junit", "."), "is a folder, expected a file name"),
}


@pytest.mark.parametrize("what", USAGE)
def test_wrong_usage_is_code_2(what: str, capsys: Out) -> None:
    arguments, words = USAGE[what]
    assert cli.main(["check", *arguments, "--quiet"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headwise: error: ")
    assert words in err
    assert err.count("\n") == 1


def test_a_library_that_is_missing_is_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: Out, tmp_path: Path
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "jax.py").write_text("raise ModuleNotFoundError(name='jax')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=":")
    assert cli.main(["check", "jax"]) == 2
    assert "jax needs jax, which is not installed: pip install jax" in capsys.readouterr().err


def test_json_on_the_standard_output_is_json(capsys: Out) -> None:
    assert cli.main(["check", "wrong.py", "--core", "--json", "-"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["target"] == "wrong.py"
    assert report["ok"] is False
    assert report["mistakes"][0]["name"] == "not scaled"
    assert report["counts"]["fail"] == len(report["mistakes"][0]["explains"])
    assert {case["status"] for case in report["cases"]} == {"pass", "fail", "not offered"}


def test_json_and_junit_files(capsys: Out) -> None:
    assert (
        cli.main(
            [
                "check",
                "wrong.py",
                "--only",
                "mask",
                "--quiet",
                "--json",
                "a.json",
                "--junit",
                "a.xml",
            ]
        )
        == 1
    )
    assert capsys.readouterr().out == ""
    counts = json.loads(Path("a.json").read_text())["counts"]
    root = ET.parse("a.xml").getroot()
    assert root.tag == "testsuites"
    assert int(root.get("tests", "")) == sum(counts.values())
    assert int(root.get("failures", "")) == counts["fail"] == len(root.findall(".//failure"))
    assert len(root.findall(".//skipped")) == counts["not offered"]
    assert cli.main(["check", "right.py", "--only", "sinks", "--junit", "b.xml", "--quiet"]) == 0
    assert len(ET.parse("b.xml").findall(".//skipped")) == 5
    suite = root.find("testsuite[@name='boolean masks']")
    assert suite is not None
    assert {case.get("classname") for case in suite} == {
        "headwise.mask.core",
        "headwise.mask.robust",
    }
    failure = root.find(".//failure")
    assert failure is not None
    assert "expected" in failure.get("message", "")


def test_list(capsys: Out) -> None:
    assert cli.main(["check", "--list", "--only", "sinks"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("sinks (sinks)\n  sinks/less-than-one")
    assert len(out.splitlines()) == 6
    assert cli.main(["check", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > len(conformance.load_cases())


@pytest.mark.parametrize(("flags", "coloured"), [((), True), (("--no-color",), False)])
def test_colours(
    flags: tuple[str, ...], coloured: bool, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    cli.main(["check", "wrong.py", "--only", "attention/scale", *flags])
    assert ("\x1b[31m" in capsys.readouterr().out) is coloured


def test_verbose_shows_every_failure(capsys: Out) -> None:
    cli.main(["check", "wrong.py", "--core", "--verbose"])
    out = capsys.readouterr().out
    assert "also:" not in out
    assert out.count("✗ attention/") > 5


def test_it_needs_no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    assert cli.main(["check", "right.py", "--core", "--quiet"]) == 0


def test_a_terminal_shows_progress_and_old_ones_question_marks() -> None:
    command = [sys.executable, "-m", "headwise.cli", "check", "right.py", "--only", "split"]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    own, theirs = pty.openpty()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=env, check=False)
    os.close(theirs)
    progress = os.read(own, 1 << 16).decode()
    os.close(own)
    assert done.returncode == 1
    assert done.stdout.startswith(b"headwise check right.py")
    assert b"? splitting heads" in done.stdout
    assert "checking 21 of 21: split/" in progress
    assert progress.endswith("\r\x1b[K")
