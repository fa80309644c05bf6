"""A skip among these is a failure where the branch is guarded."""

from __future__ import annotations

from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["pytest_make_collect_report", "pytest_runtest_makereport"]
