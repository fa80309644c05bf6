"""Who holds something: told apart by place, number and start, and never taken for dead in doubt."""

from __future__ import annotations

import os
import socket

import psutil
import pytest

from worker.journal.owners import (
    Place,
    is_alive,
    is_here,
    is_number_its_own,
    is_running,
    machine_of,
    pid_of,
    this_place,
    this_process,
)

HERE = this_place()


def owner_at(place: object, *, pid: int | None = None, start: float | None = None) -> str:
    parent = psutil.Process(os.getppid())
    pid = parent.pid if pid is None else pid
    return f"{place}:{pid}:{parent.create_time() if start is None else start:.2f}"


def test_a_process_is_known_by_place_number_and_start() -> None:
    assert is_alive(this_process())
    assert is_here(this_process())
    assert is_alive(owner_at(HERE))
    assert is_alive(owner_at(HERE, start=1.0)) is False, "a later process with its number"
    assert is_alive(owner_at(HERE, pid=2**22 + 1)) is False


@pytest.mark.parametrize(
    ("place", "alive"),
    [
        pytest.param(HERE._replace(name="renamed"), True, id="the machine was renamed"),
        pytest.param(HERE._replace(boot="earlier"), False, id="the machine was started anew"),
        pytest.param(HERE._replace(space="9"), None, id="another container, same machine"),
        pytest.param(
            HERE._replace(name="x", space="9"), None, id="an earlier container with another name"
        ),
        pytest.param(HERE._replace(name="x", boot="y"), None, id="another machine"),
        pytest.param(HERE._replace(machine="x", boot="y"), None, id="a machine with our name"),
        pytest.param(HERE._replace(boot=""), None, id="a place that does not tell its boot"),
        pytest.param(socket.gethostname(), True, id="this machine as the first version wrote it"),
        pytest.param("another-machine", None, id="another one as the first version wrote it"),
    ],
)
def test_only_what_can_be_seen_or_cannot_live_is_taken_for_alive_or_dead(
    place: object, alive: bool | None
) -> None:
    assert is_alive(owner_at(place)) is alive
    assert is_here(owner_at(place)) is (alive is True)


def test_where_no_boot_is_told_the_machine_decides() -> None:
    here = Place("box", "m", "", "")
    assert Place("box", "m", "", "").is_seen_from(here)
    assert Place("other", "m", "", "").is_seen_from(here) is None
    assert Place("box", "m", "b", "").is_seen_from(here) is None


def test_a_process_that_may_not_be_looked_at_is_neither_alive_nor_dead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deny(_pid: int) -> None:
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "Process", deny)
    assert is_running(7, 1.0) is None
    assert not is_number_its_own(7, 1.0)


def test_a_number_stays_its_own_until_another_process_gets_it() -> None:
    started = psutil.Process(os.getpid()).create_time()
    assert is_number_its_own(os.getpid(), started)
    assert not is_number_its_own(os.getpid(), started - 100)
    assert is_number_its_own(2**22 + 1, started)


def test_a_system_without_proc_tells_less_and_is_still_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise OSError

    this_place.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr("worker.journal.owners.os.stat", missing)
        patched.setattr("worker.journal.owners.Path.read_text", missing)
        place = this_place()
    this_place.cache_clear()
    assert place == Place(HERE.name, "", "", "")
    assert place.is_seen_from(place)


def test_an_owner_text_gives_machine_and_process_for_people() -> None:
    owner = f"{this_process()}#a-job"
    assert (machine_of(owner), pid_of(owner)) == (HERE.name, os.getpid())
    assert is_alive(owner), "what stands behind the mark tells holders of one process apart"
