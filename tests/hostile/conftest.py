"""Fixtures of the attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from contracts.ids import new_job_id
from tests.support.broker import Broker, broker, running_broker
from tests.support.hosts import Host, listening_host
from tests.support.rq_attacks import Canary, canary_in

__all__ = ["attacked", "broker", "canary", "control", "shared"]


@pytest.fixture(scope="module")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Broker, Canary]]:
    folder = tmp_path_factory.mktemp("attacked")
    with canary_in(folder / "canary") as canary, running_broker(folder / "broker") as server:
        with listening_host(folder / "fleet", server, extra=canary.environment) as host:
            yield host, server, canary


@pytest.fixture(scope="module")
def shared(_shared: tuple[Host, Broker, Canary]) -> tuple[Host, Canary]:
    """The same host and canary for what a whole module looks at once."""
    return _shared[0], _shared[2]


@pytest.fixture
def attacked(_shared: tuple[Host, Broker, Canary]) -> Host:
    """One listening host for all attacks of a module, whose path holds the canary's module."""
    return _shared[0]


@pytest.fixture
def canary(_shared: tuple[Host, Broker, Canary]) -> Canary:
    """The canary, silent at the start of each test."""
    _shared[2].reset()
    return _shared[2]


@pytest.fixture
def control() -> str:
    """The queue of this test's stock worker: what one leaves behind must not stop the next."""
    return f"control-{new_job_id()}"
