"""Fixtures of the faults: a broker that writes everything down before it answers, and one host.
A skip here fails where nothing may be skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import Broker, running_broker
from tests.support.hosts import host
from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["broker", "host", "pytest_make_collect_report", "pytest_runtest_makereport"]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A Valkey that may be killed at any moment and has every answered write afterwards."""
    with running_broker(tmp_path / "broker", fsync="always") as server:
        yield server
