"""What the doctor's tests share: a host that lacks nothing, and reading the findings about it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from contracts.clock import SystemClock
from contracts.ids import new_job_id
from dispatch.settings import load_settings
from runagent.process import system_runner
from tests.support.broker import Broker
from tests.support.fleet import make_repository
from tests.support.hosts import LANE, Host, make_host, make_sender
from worker.diagnosis.examination import examine
from worker.diagnosis.finding import Finding, FindingState, Machine
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.settings import host_settings

OK, WARNING, FAILED = FindingState.OK, FindingState.WARNING, FindingState.FAILED


@pytest.fixture
def whole_host(broker: Broker, tmp_path: Path) -> Host:
    """A host that lacks nothing; no listener runs."""
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    write_config(host, f'[host]\nname = "{host.name}"\nlanes = ["{LANE}"]\n')
    return host


def write_config(host: Host, text: str) -> None:
    config = host.fleet_home / "config.toml"
    own = "" if "[sandbox]" in text else '\n[sandbox]\nmode = "none"\n'
    config.write_text(text + own)
    config.chmod(0o600)


class LateClock(SystemClock):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wall(self) -> float:
        return super().wall() + self._seconds


def machine_of(host: Host, *, late_s: float = 0.0) -> Machine:
    settings = load_settings(environ=host.environment)
    return Machine(
        settings=settings,
        host=host_settings(settings),
        environment=host.environment,
        runner=system_runner(),
        clock=LateClock(late_s),
    )


def look(host: Host, **options: float) -> dict[str, Finding]:
    found = examine(machine_of(host, **options))
    for finding in found:
        assert finding.what
        assert bool(finding.remedy) == (finding.state is not OK), finding
    return {finding.name: finding for finding in found}


def states(found: dict[str, Finding], state: FindingState) -> set[str]:
    return {name for name, finding in found.items() if finding.state is state}


def assert_only(found: dict[str, Finding], name: str, state: FindingState, *words: str) -> None:
    """Only `name` is not well (the sandbox of this machine aside), and it says `words`."""
    assert (states(found, WARNING) | states(found, FAILED)) - {"sandbox"} == {name}, found
    assert found[name].state is state
    for word in words:
        assert word in f"{found[name].what} ({found[name].remedy})"


def journal_of(host: Host) -> contextlib.closing[Journal]:
    return contextlib.closing(Journal(host.journal_file, SystemClock()))


def claim(host: Host, **facts: str) -> str:
    job_id = new_job_id()
    with journal_of(host) as journal:
        journal.claim(NewJob(jti=job_id, iss="alice", iat=1, exp=2**40, facts=facts))
    return job_id
