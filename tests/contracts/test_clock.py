"""One suite over the machine's clock and the shipped fake."""

from __future__ import annotations

import threading
import time

import pytest

from contracts.clock import Clock, ManualClock, SystemClock


@pytest.fixture(params=[SystemClock, ManualClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


def test_the_wall_clock_reads_seconds_since_the_epoch(clock: Clock) -> None:
    assert 1_600_000_000 < clock.wall() < 5_000_000_000


def test_the_monotonic_clock_never_goes_back(clock: Clock) -> None:
    event = threading.Event()
    readings = [clock.monotonic()]
    for _ in range(5):
        clock.wait(event, 0.001)
        readings.append(clock.monotonic())
    assert readings == sorted(readings)


def test_a_wait_lasts_as_long_as_asked_when_nothing_happens(clock: Clock) -> None:
    before = clock.monotonic()
    assert clock.wait(threading.Event(), 0.05) is False
    assert clock.monotonic() - before >= 0.045


def test_a_wait_on_what_has_happened_takes_no_time(clock: Clock) -> None:
    event = threading.Event()
    event.set()
    before = clock.monotonic()
    assert clock.wait(event, 60.0) is True
    assert clock.monotonic() - before < 10


def test_a_wait_of_no_length_returns_at_once(clock: Clock) -> None:
    before = clock.monotonic()
    assert clock.wait(threading.Event(), 0.0) is False
    assert clock.wait(threading.Event(), -5.0) is False
    assert 0 <= clock.monotonic() - before < 10


def test_the_machines_clock_is_the_machines() -> None:
    assert abs(SystemClock().wall() - time.time()) < 10
    assert abs(SystemClock().monotonic() - time.monotonic()) < 10


def test_the_fake_moves_only_when_told() -> None:
    clock = ManualClock(wall=100.0, monotonic=5.0)
    assert (clock.wall(), clock.monotonic()) == (100.0, 5.0)
    clock.advance(2.5)
    assert (clock.wall(), clock.monotonic()) == (102.5, 7.5)


def test_a_correction_of_the_time_moves_the_wall_clock_alone() -> None:
    clock = ManualClock(wall=100.0, monotonic=5.0)
    clock.jump(-60.0)
    assert (clock.wall(), clock.monotonic()) == (40.0, 5.0)
