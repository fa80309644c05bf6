"""The governor through the whole product: a listener, signed jobs, a real broker."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from contracts.run_agent import AgentName
from dispatch.pools.limit import Pool, PoolLimit, Unit
from dispatch.pools.pool_book import PoolBook
from dispatch.queue.link import connect
from tests.support.broker import Broker, running_broker
from tests.support.fleet import place_program, wait_until
from tests.support.hosts import Host, listening_host

POOL = Pool(AgentName.CODEX, "work")
CONFIG = '[governor]\nlease_s = 3\n[agents.codex]\naccount = "work"\n'
# Reports a limit as the real one does, with the time in its own words.
LIMITED = """
import json, sys
if {"--version", "--help"} & set(sys.argv):
    sys.exit(print("codex-cli 0.171.0"))
sys.stdin.read()
print(json.dumps({"type": "thread.started", "thread_id": "t"}))
words = "You\\u2019ve hit your usage limit. Try again at 11:59 PM."
print(json.dumps({"type": "turn.failed", "error": {"message": words}}))
sys.exit(1)
"""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker") as server:
        yield server


@pytest.fixture
def governed(broker: Broker, tmp_path: Path) -> Iterator[Host]:
    with listening_host(tmp_path, broker, config=CONFIG, options=("--concurrency", "2")) as host:
        yield host
        host.release()


@pytest.fixture
def book(broker: Broker) -> Iterator[PoolBook]:
    connection = connect(broker.url)
    yield PoolBook(connection, broker.url)
    connection.close()


def used(book: PoolBook) -> list[tuple[int, int]]:
    return [(use.used, use.reserved) for use in book.view(POOL).limits]


def test_a_pool_ends_a_job_before_its_worktree_and_gets_back_what_a_killed_run_held(
    governed: Host, book: PoolBook
) -> None:
    host = governed
    book.set_limit(POOL, PoolLimit(Unit.RUNS, 3_600, 1, 1))
    running = host.start_waiting_job()
    assert used(book) == [(1, 1)]
    denied = host.result(host.push(host.job()), seconds=120)
    assert denied.status == "rate_limited"
    assert denied.reason.code == "governor_denied"
    assert 3_000 < denied.reason.retryAfterSec <= 3_600
    assert "codex/work" in denied.summary
    assert denied.worktreePath == ""
    assert denied.attempts == 0
    assert not list(host.repo.parent.glob(f"{host.repo.name}-agents/{denied.jobId}"))
    processes: list[psutil.Process] = host.run_processes()
    assert len(processes) == 1
    os.kill(processes[0].pid, signal.SIGKILL)
    wait_until(lambda: used(book) == [(0, 0)], "the place is back within the lease", 60)
    assert host.result(running, seconds=120).status == "failed"
    host.release()
    host.run_honest_job()
    assert used(book) == [(1, 0)]


def test_a_limit_that_an_agent_reports_is_told_to_the_next_job_at_once(
    governed: Host, book: PoolBook
) -> None:
    host = governed
    place_program(host.home / "bin", "codex", LIMITED)
    limited = host.result(host.push(host.job()), seconds=120)
    assert limited.status == "rate_limited"
    assert limited.reason.code == "usage_limit"
    assert limited.attempts == 1
    closed = book.view(POOL).closed_until
    assert closed is not None
    told = datetime.fromisoformat(limited.reason.resetsAt).timestamp()
    assert abs(closed - told) < 2
    next_one = host.result(host.push(host.job()), seconds=120)
    assert next_one.status == "rate_limited"
    assert next_one.reason.code == "governor_denied"
    assert limited.jobId in next_one.summary
    assert (next_one.attempts, next_one.worktreePath) == (0, "")
