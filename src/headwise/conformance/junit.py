"""The report as JUnit XML, which continuous integration reads."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from headwise.conformance.cases import groups
from headwise.conformance.diagnosis import Result
from headwise.conformance.report import Report

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: Report, path: str | Path) -> None:
    """Write one test suite for each group; what is not offered is skipped."""
    ET.ElementTree(as_xml(report)).write(path, encoding="utf-8", xml_declaration=True)


def as_xml(report: Report) -> ET.Element:
    """Return the report as an XML element."""
    root = ET.Element("testsuites", name=f"headwise check {_clean(report.target)}")
    for group, title in groups().items():
        results = [r for r in report.results if r.case.group == group]
        if results:
            _suite(root, title, results)
    _count(root, list(report.results))
    root.set("time", f"{report.seconds:.3f}")
    return root


def _suite(root: ET.Element, title: str, results: list[Result]) -> None:
    suite = ET.SubElement(root, "testsuite", name=title)
    _count(suite, results)
    suite.set("skipped", str(sum(r.verdict.status == "not offered" for r in results)))
    for result in results:
        case = result.case
        element = ET.SubElement(
            suite, "testcase", name=case.name, classname=f"headwise.{case.group}.{case.level}"
        )
        tag = {"fail": "failure", "not offered": "skipped", "not run": "error"}.get(
            result.verdict.status
        )
        if tag:
            detail = ET.SubElement(element, tag, message=_clean(result.verdict.why))
            detail.text = _clean(
                f"{case.asks}\n{result.verdict.why}\n{result.outcome.where}".strip()
            )


def _count(element: ET.Element, results: list[Result]) -> None:
    statuses = [r.verdict.status for r in results]
    element.set("tests", str(len(results)))
    element.set("failures", str(statuses.count("fail")))
    element.set("errors", str(statuses.count("not run")))


def _clean(text: str) -> str:
    """Replace what XML has no place for."""
    return _NOT_XML.sub("\ufffd", text)
