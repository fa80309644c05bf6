"""What a host asks before it starts an agent: pools, a program, both; and a broker that is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest
from contracts.run_agent import AgentName
from dispatch.pools.ledger import Ledger
from dispatch.pools.limit import Pool, PoolLimit, Unit
from dispatch.pools.pool_book import PoolBook
from dispatch.queue.link import connect
from runagent.governor import Admission, AgentLimit, GovernorAnswer, OpenGovernor, Spent
from runagent.process import system_runner
from tests.support.broker import Broker, running_broker
from tests.support.fleet import place_program, wait_until
from worker.governor.chain import GovernorChain
from worker.governor.choice import host_governor
from worker.governor.pool_governor import PoolGovernor
from worker.governor.settings import of_a_listener
from worker.settings import HostSettings, load_host_settings

JOB = "0123456789abcdef0123"
CODEX = AgentName.CODEX
POOL = Pool(CODEX, "work")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture
def book(broker: Broker) -> Iterator[PoolBook]:
    connection = connect(broker.url)
    connection.flushall()
    yield PoolBook(connection, broker.url)
    connection.close()


def governor(url: str, *, lease_s: float = 60) -> PoolGovernor:
    ledger = Ledger(connect(url), url)
    return PoolGovernor(ledger, {CODEX: "work"}, SystemClock(), lease_s=lease_s)


def used(book: PoolBook) -> list[int]:
    return [use.used for use in book.view(POOL).limits]


def host(tmp_path: Path, config: str, **environ: str) -> HostSettings:
    (tmp_path / "config.toml").write_text(config)
    return load_host_settings(environ={"FLEET_DISPATCH_HOME": str(tmp_path), **environ})


def test_a_start_is_admitted_kept_alive_and_settled_with_what_it_used(
    broker: Broker, book: PoolBook
) -> None:
    book.set_limit(POOL, PoolLimit(Unit.TOKENS, 3_600, 1_000, 600))
    gate = governor(broker.url, lease_s=0.9)
    assert gate.admit(CODEX, JOB, 1).admission is Admission.ALLOWED
    denied = gate.admit(CODEX, "b" * 20, 1)
    assert denied.admission is Admission.DENIED
    assert "codex/work" in denied.phrase
    assert denied.retry_after_s is not None
    assert denied.resets_at is not None
    threads_alive = SystemClock()
    began = threads_alive.monotonic()
    wait_until(lambda: threads_alive.monotonic() - began > 2, "two leases have passed")
    assert used(book) == [600]  # renewed meanwhile
    spent = Spent(started=True, tokens=100, dollars=0.5)
    assert gate.settle(CODEX, JOB, 1, spent) == ""
    assert gate.settle(CODEX, JOB, 1, spent) == ""
    assert used(book) == [100]
    assert gate.admit(CODEX, "b" * 20, 1).admission is Admission.ALLOWED
    assert gate.settle(CODEX, "b" * 20, 1, Spent(started=False)) == ""
    assert used(book) == [100]


def test_what_an_agent_did_not_say_stays_as_it_was_set_aside(
    broker: Broker, book: PoolBook
) -> None:
    book.set_limit(POOL, PoolLimit(Unit.TOKENS, 3_600, 1_000, 600))
    gate = governor(broker.url)
    gate.admit(CODEX, JOB, 1)
    gate.settle(CODEX, JOB, 1, Spent(started=True))
    assert used(book) == [600]


def test_a_limit_that_an_agent_reports_denies_the_next_start_at_once(
    broker: Broker, book: PoolBook
) -> None:
    gate = governor(broker.url)
    limit = AgentLimit(code="usage_limit", message="5-hour window", retry_after_s=900)
    assert gate.close_until(CODEX, JOB, limit) == ""
    denied = governor(broker.url).admit(CODEX, "b" * 20, 1)
    assert denied.admission is Admission.DENIED
    assert "usage_limit" in denied.phrase
    assert denied.retry_after_s is not None
    assert 800 < denied.retry_after_s <= 900
    assert book.view(POOL).closed_until is not None


def test_a_start_that_never_fits_is_told_that_waiting_does_not_help(
    broker: Broker, book: PoolBook
) -> None:
    book.set_limit(POOL, PoolLimit(Unit.RUNS, 60, 0, 1))
    denied = governor(broker.url).admit(CODEX, JOB, 1)
    assert "waiting does not help" in denied.phrase
    assert denied.retry_after_s is denied.resets_at is None


def test_a_broker_that_is_away_stops_no_run_and_no_settling(tmp_path: Path) -> None:
    with running_broker(tmp_path / "broker") as server:
        connection = connect(server.url)
        PoolBook(connection, server.url).set_limit(POOL, PoolLimit(Unit.RUNS, 60, 5, 1))
        gate = governor(server.url, lease_s=0.3)
        assert gate.admit(CODEX, JOB, 1).admission is Admission.ALLOWED
        connection.close()
        server.stop()
        missing = gate.admit(CODEX, JOB, 2)
        assert missing.admission is Admission.MISSING
        assert "no broker answers" in missing.phrase
        assert "no broker answers" in gate.settle(CODEX, JOB, 1, Spent(started=True))
        limit = AgentLimit(code="rate_limit", retry_after_s=60)
        assert "no broker answers" in gate.close_until(CODEX, JOB, limit)


class Scripted(OpenGovernor):
    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self.settled: list[Spent] = []

    def admit(self, _agent: AgentName, _job_id: str, _attempt: int, /) -> GovernorAnswer:
        return GovernorAnswer(self.admission, self.admission.value)

    def settle(self, _agent: AgentName, _job_id: str, _attempt: int, spent: Spent, /) -> str:
        self.settled.append(spent)
        return "not there"


def test_of_several_governors_each_must_admit_and_none_keeps_what_another_denied() -> None:
    open_one, denying = Scripted(Admission.ALLOWED), Scripted(Admission.DENIED)
    missing = Scripted(Admission.MISSING)
    assert GovernorChain([open_one]).admit(CODEX, JOB, 1).admission is Admission.ALLOWED
    chain = GovernorChain([missing, open_one, denying])
    assert chain.admit(CODEX, JOB, 1).admission is Admission.DENIED
    assert open_one.settled == missing.settled == [Spent(started=False)]
    assert denying.settled == []
    unsure = GovernorChain([missing, open_one])
    assert unsure.admit(CODEX, JOB, 1).admission is Admission.MISSING
    assert unsure.settle(CODEX, JOB, 1, Spent(started=True)) == "not there; not there"
    assert unsure.close_until(CODEX, JOB, AgentLimit(code="x")) == ""


def test_a_host_asks_the_pools_where_a_broker_is_named_and_its_own_program_where_one_is(
    tmp_path: Path,
) -> None:
    runner, clock = system_runner(), SystemClock()
    assert host_governor(host(tmp_path, ""), runner, {}, clock) is None
    off = host(tmp_path, '[fleet]\nredis_url = "redis://x"\n[governor]\npools = false\n')
    assert host_governor(off, runner, {}, clock) is None
    place_program(tmp_path / "bin", "gate", "print('weekly: 0 left'); raise SystemExit(3)")
    config = (
        f'[governor]\nlease_s = 5\n[governor.command]\ncodex = ["{tmp_path}/bin/gate"]\n'
        '[agents.codex]\naccount = "work"\n'
    )
    named = host(tmp_path, config, FLEET_DISPATCH_REDIS_URL=f"unix://{tmp_path}/nobody")
    assert named.governor.accounts == {CODEX: "work"}
    assert named.governor.use_pools
    chosen = host_governor(named, runner, {}, clock)
    assert chosen is not None
    denied = chosen.admit(CODEX, JOB, 1)
    assert (denied.admission, denied.phrase) == (Admission.DENIED, "weekly: 0 left")
    assert chosen.admit(AgentName.GROK, JOB, 1).admission is Admission.MISSING
    with pytest.raises(InvalidRequest):
        host(tmp_path, '[governor.command]\ngpt = ["x"]\n')
    with pytest.raises(InvalidRequest):
        host(tmp_path, '[agents.codex]\naccount = "a/b"\n')


def test_a_listener_asks_the_broker_that_it_serves_wherever_its_address_came_from(
    tmp_path: Path,
) -> None:
    unnamed = host(tmp_path, "").governor
    assert not unnamed.use_pools
    assert of_a_listener(unnamed, uses_queue=True).use_pools
    assert not of_a_listener(unnamed, uses_queue=False).use_pools
    off = host(tmp_path, "[governor]\npools = false\n").governor
    assert not of_a_listener(off, uses_queue=True).use_pools


def test_detectors_stand_under_their_new_and_their_earlier_name(tmp_path: Path) -> None:
    config = '[validation]\ndetect = ["go", "npm"]\ndetectors = ["npm", "make"]\n'
    assert host(tmp_path, config).detectors == ("go", "npm", "make")
