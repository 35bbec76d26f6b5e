"""A kit that checks implementations of attention: ``headwise check``.

The cases are data (``cases.json``). `check` runs them on a target in a process of its own and says
which known mistake a failure looks like; `load_cases` gives the cases for use elsewhere.
"""

from headwise.conformance.cases import Case, groups, load_cases
from headwise.conformance.report import Report, check
from headwise.conformance.targets import TargetError

__all__ = ["Case", "Report", "TargetError", "check", "groups", "load_cases"]
