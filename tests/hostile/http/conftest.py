"""One host with a door, attacked by all tests here. A skip here fails where nothing may be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.broker import Broker
from tests.support.fleet import make_repository
from tests.support.hosts import make_host, make_sender
from tests.support.http_door import Door, open_door
from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = ["attacked_door", "door", "pytest_make_collect_report", "pytest_runtest_makereport"]


@pytest.fixture(scope="package")
def attacked_door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    repo = make_repository(folder / "repo", {"readme.txt": "hello\n"})
    host = make_host(folder, Broker(folder / "none"), make_sender(folder / "sender"), repo)
    host.options = ("--no-queue",)
    opened = open_door(host)
    host.start()
    yield opened
    host.release()
    assert host.stop() == 0


@pytest.fixture
def door(attacked_door: Door) -> Iterator[Door]:
    """The door, which must be the same process after the test, and small."""
    pid = attacked_door.host.pid
    yield attacked_door
    assert attacked_door.host.pid == pid
    assert attacked_door.host.is_running(), attacked_door.host.log[-4000:]
