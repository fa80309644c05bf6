"""On the machine that guards the branch a test that skips has failed. A conftest which imports the
two hooks here holds that for every test below it; at a desk a skip stays a skip."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.tools import is_ci


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the report of a skipped test into a failure where nothing may be skipped."""
    report = yield
    if report.skipped and is_ci():
        _fail(report, f"{item.nodeid} was skipped, and this run must not skip")
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself as a whole."""
    report = yield
    if report.skipped and is_ci():
        _fail(report, f"{collector.nodeid} was skipped, and this run must not skip")
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport, why: str) -> None:
    report.outcome = "failed"
    report.longrepr = f"{why}: {report.longrepr}"
