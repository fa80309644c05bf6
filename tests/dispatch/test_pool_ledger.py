"""The pools at a real broker: what is admitted, given back, settled and closed, by its clock."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from contracts import limits, naming
from contracts.errors import CouldNotCheck, InvalidRequest, Unavailable
from contracts.run_agent import AgentName
from dispatch.pools.ledger import Booked, Denied, Ledger
from dispatch.pools.limit import (
    Pool,
    PoolLimit,
    Unit,
    checked_limit,
    checked_pool,
    read_limit,
    read_pool,
    span_words,
)
from dispatch.pools.pool_book import PoolBook
from dispatch.queue.link import connect
from tests.support.broker import Broker, running_broker
from tests.support.fleet import wait_until

POOL = Pool(AgentName.CODEX, "work")
# One parent, so that the imports are paid once; each racer is a process with a link of its own.
RACE = """
import os, sys
from contracts.run_agent import AgentName
from dispatch.pools.ledger import Booked, Denied, Ledger
from dispatch.pools.limit import Pool
from dispatch.queue.link import connect
start, go = os.pipe()
racers = []
for number in range(40):
    if os.fork() == 0:
        os.close(go)
        ledger = Ledger(connect(sys.argv[1]), sys.argv[1])
        os.read(start, 1)
        answer = ledger.admit(Pool(AgentName.CODEX, "work"), f"job{number}:1", 60)
        text = "in" if isinstance(answer, Booked) else f"wait {answer.wait_s}"
        os.write(1, (text + chr(10)).encode())
        os._exit(0)
os.close(go)
for _ in range(40):
    os.wait()
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture
def connection(shared: Broker) -> Iterator[redis.Redis]:
    connection = connect(shared.url)
    connection.flushall()
    yield connection
    connection.close()


@pytest.fixture
def ledger(connection: redis.Redis, shared: Broker) -> Ledger:
    return Ledger(connection, shared.url)


@pytest.fixture
def book(connection: redis.Redis, shared: Broker) -> PoolBook:
    return PoolBook(connection, shared.url)


def used(book: PoolBook) -> list[tuple[int, int]]:
    return [(use.used, use.reserved) for use in book.view(POOL).limits]


def limit(unit: Unit, cap: int, *, window_s: int = 3_600, estimate: int = 1) -> PoolLimit:
    return PoolLimit(unit, window_s, cap, estimate)


def test_of_forty_processes_that_race_for_ten_places_ten_get_one(
    shared: Broker, book: PoolBook
) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 10))
    race = [sys.executable, "-c", RACE, shared.url]
    done = subprocess.run(race, capture_output=True, text=True, timeout=120, check=True)
    said = done.stdout.split("\n")[:-1]
    assert said.count("in") == 10
    waits = [int(text.split()[1]) for text in said if text != "in"]
    assert len(waits) == 30
    assert all(3_000 < wait <= 3_600 for wait in waits)
    assert used(book) == [(10, 10)]


def test_a_pool_without_a_limit_admits_and_books_nothing(
    ledger: Ledger, connection: redis.Redis
) -> None:
    assert ledger.admit(POOL, "a:1", 60) is None
    assert connection.dbsize() == 0


def test_the_same_start_asked_for_twice_is_one_booking(ledger: Ledger, book: PoolBook) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1))
    first = ledger.admit(POOL, "a:1", 60)
    assert ledger.admit(POOL, "a:1", 60) == first
    assert isinstance(ledger.admit(POOL, "a:2", 60), Denied)
    assert used(book) == [(1, 1)]


def test_settled_twice_counts_once(ledger: Ledger, book: PoolBook) -> None:
    book.set_limit(POOL, limit(Unit.TOKENS, 1_000, estimate=400))
    booked = ledger.admit(POOL, "a:1", 60)
    assert isinstance(booked, Booked)
    assert used(book) == [(400, 400)]
    ledger.settle(POOL, booked, runs=1, tokens=250, micro=0)
    ledger.settle(POOL, booked, runs=1, tokens=900, micro=0)
    assert used(book) == [(250, 0)]
    ledger.renew(POOL, booked, 60)  # a renewal that comes late takes nothing back
    assert used(book) == [(250, 0)]


def test_reservations_keep_parallel_starts_below_the_cap(ledger: Ledger, book: PoolBook) -> None:
    book.set_limit(POOL, limit(Unit.TOKENS, 1_000, estimate=400))
    answers = [ledger.admit(POOL, f"{name}:1", 60) for name in "abc"]
    assert [isinstance(answer, Booked) for answer in answers] == [True, True, False]
    first = answers[0]
    assert isinstance(first, Booked)
    ledger.settle(POOL, first, runs=1, tokens=100, micro=0)
    assert isinstance(ledger.admit(POOL, "c:1", 60), Booked)


def test_a_start_that_did_not_happen_gives_its_place_back(ledger: Ledger, book: PoolBook) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1))
    booked = ledger.admit(POOL, "a:1", 60)
    assert isinstance(booked, Booked)
    ledger.settle(POOL, booked, runs=0, tokens=0, micro=0)
    assert isinstance(ledger.admit(POOL, "b:1", 60), Booked)


def test_a_lease_that_nobody_renews_gives_the_place_back(ledger: Ledger, book: PoolBook) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1))
    booked = ledger.admit(POOL, "a:1", 0.3)
    assert isinstance(booked, Booked)
    ledger.renew(POOL, booked, 1.5)
    assert isinstance(ledger.admit(POOL, "b:1", 60), Denied)
    wait_until(lambda: isinstance(ledger.admit(POOL, "b:1", 60), Booked), "the place is free")
    ledger.renew(POOL, booked, 60)  # frozen for longer than its lease, and it goes on after all
    assert used(book) == [(2, 2)]


def test_what_left_the_window_counts_no_more(ledger: Ledger, book: PoolBook) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1, window_s=2))
    booked = ledger.admit(POOL, "a:1", 60)
    assert isinstance(booked, Booked)
    ledger.settle(POOL, booked, runs=1, tokens=0, micro=0)
    denied = ledger.admit(POOL, "b:1", 60)
    assert isinstance(denied, Denied)
    assert denied.wait_s in (1, 2)
    assert denied.why == "1 of 1 runs in 2s are taken"
    wait_until(lambda: isinstance(ledger.admit(POOL, "b:1", 60), Booked), "the window has passed")


def test_the_tightest_of_several_limits_says_when_to_come_back(
    ledger: Ledger, book: PoolBook
) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1, window_s=60))
    book.set_limit(POOL, limit(Unit.DOLLARS, 5_000_000, window_s=600, estimate=3_000_000))
    assert isinstance(ledger.admit(POOL, "a:1", 60), Booked)
    denied = ledger.admit(POOL, "b:1", 60)
    assert isinstance(denied, Denied)
    assert denied.wait_s is not None
    assert denied.wait_s > 500
    assert denied.why.startswith("$3.00 of $5.00 in 10min")


def test_a_start_that_never_fits_is_told_so(ledger: Ledger, book: PoolBook) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 0))
    denied = ledger.admit(POOL, "a:1", 60)
    assert isinstance(denied, Denied)
    assert denied.wait_s is None


def test_no_estimate_lets_starts_in_until_the_cap_is_reached(
    ledger: Ledger, book: PoolBook
) -> None:
    book.set_limit(POOL, limit(Unit.TOKENS, 10, estimate=0))
    booked = ledger.admit(POOL, "a:1", 60)
    assert isinstance(booked, Booked)
    ledger.settle(POOL, booked, runs=1, tokens=10, micro=0)
    denied = ledger.admit(POOL, "b:1", 60)
    assert isinstance(denied, Denied)
    assert denied.wait_s is not None


def test_a_reported_limit_closes_a_pool_that_has_no_limit_until_it_ends(
    ledger: Ledger, book: PoolBook
) -> None:
    assert ledger.close(POOL, until=None, after_s=2, why="usage_limit") is not None
    denied = ledger.admit(POOL, "a:1", 60)
    assert isinstance(denied, Denied)
    assert denied.wait_s in (1, 2)
    assert "usage_limit" in denied.why
    assert book.pools() == (POOL,)
    assert book.view(POOL).closed_until is not None
    assert ledger.admit(Pool(AgentName.CODEX), "a:1", 60) is None  # another account
    wait_until(lambda: ledger.admit(POOL, "a:1", 60) is None, "the pool is open again")


def test_of_two_reported_ends_the_later_stays_and_none_is_beyond_a_week(ledger: Ledger) -> None:
    now = int(time.time())
    assert ledger.close(POOL, until=now + 900, after_s=None, why="x") == now + 900
    assert ledger.close(POOL, until=now + 60, after_s=None, why="y") == now + 900
    far = ledger.close(POOL, until=now + 10**9, after_s=None, why="z")
    assert far is not None
    assert abs(far - now - limits.POOL_CLOSED_MAX_S) < 60
    assert ledger.close(Pool(AgentName.GROK), until=now - 60, after_s=None, why="past") is None
    assert ledger.close(POOL, until=None, after_s=None, why="no end is known") is None


def test_a_closed_pool_is_opened_by_a_person(ledger: Ledger, book: PoolBook) -> None:
    ledger.close(POOL, until=None, after_s=600, why="x")
    assert book.open(POOL)
    assert not book.open(POOL)
    assert ledger.admit(POOL, "a:1", 60) is None


def test_what_a_stranger_wrote_into_a_pool_counts_for_nothing(
    ledger: Ledger, book: PoolBook, connection: redis.Redis
) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1))
    connection.hset(naming.governor_limits(POOL.name), "bananas/x", "1:1")
    connection.hset(naming.governor_bookings(POOL.name), mapping={"x": "junk", "y": "9:9:r:1:1"})
    connection.sadd(naming.governor_pools(), "no/such/pool", b"\xff\x00")
    connection.hset(naming.governor_closed(POOL.name), "until", "tomorrow")
    assert book.pools() == (POOL,)
    assert used(book) == [(0, 0)]
    assert isinstance(ledger.admit(POOL, "a:1", 60), Booked)
    assert connection.hkeys(naming.governor_bookings(POOL.name)) == [b"a:1"]


@pytest.mark.parametrize("ahead_s", [60, 366 * 86_400, 10**12])
def test_what_lies_ahead_of_the_clock_holds_a_pool_no_longer_than_its_window(
    ledger: Ledger, book: PoolBook, connection: redis.Redis, ahead_s: int
) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1, window_s=2))
    at = int((time.time() + ahead_s) * 1_000)
    connection.hset(naming.governor_bookings(POOL.name), "x", f"{at}:{at}:r:1:0:0")
    closed_at = at + limits.POOL_CLOSED_MAX_S * 1_000
    connection.hset(naming.governor_closed(POOL.name), mapping={"until": closed_at, "why": "x"})
    assert book.view(POOL).closed_until is None
    denied = ledger.admit(POOL, "a:1", 60)
    assert isinstance(denied, Denied)
    assert denied.wait_s is not None
    assert denied.wait_s <= 2
    wait_until(lambda: isinstance(ledger.admit(POOL, "a:1", 60), Booked), "the place", 30)


def test_a_key_of_another_kind_and_too_many_bookings_are_trouble_and_no_denial(
    ledger: Ledger, book: PoolBook, connection: redis.Redis
) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 1))
    key = naming.governor_bookings(POOL.name)
    connection.hset(key, mapping={str(n): "x" for n in range(limits.POOL_BOOKINGS_MAX + 1)})
    with pytest.raises(CouldNotCheck):
        ledger.admit(POOL, "a:1", 60)
    connection.set(key, "a string")
    with pytest.raises(CouldNotCheck):
        ledger.admit(POOL, "a:1", 60)


def test_bookings_go_with_the_last_limit(
    ledger: Ledger, book: PoolBook, connection: redis.Redis
) -> None:
    book.set_limit(POOL, limit(Unit.RUNS, 5))
    book.set_limit(POOL, limit(Unit.TOKENS, 5))
    booked = ledger.admit(POOL, "a:1", 60)
    assert isinstance(booked, Booked)
    assert book.remove(POOL, unit=Unit.TOKENS) == 1
    assert used(book) == [(1, 1)]
    assert book.remove(POOL, unit=None) == 1
    ledger.renew(POOL, booked, 60)
    ledger.settle(POOL, booked, runs=1, tokens=0, micro=0)
    assert connection.dbsize() == 0


def test_a_pool_takes_so_many_limits_and_no_more(book: PoolBook) -> None:
    for number in range(limits.POOL_LIMITS_MAX):
        book.set_limit(POOL, limit(Unit.RUNS, 1, window_s=60 + number))
    book.set_limit(POOL, limit(Unit.RUNS, 2, window_s=60))
    with pytest.raises(InvalidRequest):
        book.set_limit(POOL, limit(Unit.RUNS, 1, window_s=50))


def test_nobody_there_is_unavailable(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nobody"
    with pytest.raises(Unavailable):
        Ledger(connect(url), url).admit(POOL, "a:1", 60)


def test_a_limit_is_read_as_a_person_writes_it() -> None:
    assert checked_limit(Unit.RUNS, "5h", 40, None) == PoolLimit(Unit.RUNS, 18_000, 40, 1)
    dollars = checked_limit(Unit.DOLLARS, "7d", 2.5, None)
    assert (dollars.cap, dollars.estimate) == (2_500_000, 250_000)
    assert checked_limit(Unit.TOKENS, "45min", 9, 3).window_s == 2_700
    assert read_limit(dollars.field, dollars.value) == dollars
    for unit, window, cap, estimate in [
        (Unit.RUNS, "5 weeks", 1, None),
        (Unit.RUNS, "99d", 1, None),
        (Unit.RUNS, "1h", -1, None),
        (Unit.RUNS, "1h", float("nan"), None),
        (Unit.RUNS, "1h", 1, 2),
        (Unit.TOKENS, "1h", 1, -5),
    ]:
        with pytest.raises(InvalidRequest):
            checked_limit(unit, window, cap, estimate)
    assert read_limit("runs/0", "1:1") is None


def test_a_pool_is_an_agent_that_we_know_on_a_named_account() -> None:
    assert checked_pool("codex", "work") == POOL
    assert read_pool(POOL.name) == POOL
    with pytest.raises(InvalidRequest):
        checked_pool("gpt", "work")
    with pytest.raises(InvalidRequest):
        checked_pool("codex", "a/b")


def test_spans_are_told_in_the_largest_unit_that_fits() -> None:
    assert [span_words(n) for n in (45, 5_400, 18_000, 604_800)] == ["45s", "90min", "5h", "7d"]
