"""Fixtures of the replays. A skip here fails where nothing may be skipped."""

from __future__ import annotations

from tests.support.broker import broker
from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["broker", "pytest_make_collect_report", "pytest_runtest_makereport"]
