"""Two listeners with homes of their own serve one repository: every job runs once, where it was
addressed, and every result verifies."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.broker import running_broker
from tests.support.fleet import Machine, git, make_repository, place_program

LANES = ("BUILD", "REVIEW")
HOSTS = ("NORTH", "SOUTH")
JOBS = 20

# Counts its own starts in a folder that every host can reach, one file a start.
AGENT = """
import json, os, re, sys
brief = sys.stdin.read()
number = re.search(r"job number (\\d+)", brief).group(1)
os.makedirs("{marks}", exist_ok=True)
name = os.path.join("{marks}", number + "." + str(os.getpid()))
open(name, "x").write(os.getcwd())
open("made-by-" + number + ".txt", "w").write(brief)
say = lambda event: print(json.dumps(event), flush=True)
say({{"type": "thread.started", "thread_id": "t" + number}})
say({{"type": "item.completed", "item": {{"type": "agent_message", "text": "did " + number}}}})
say({{"type": "turn.completed", "usage": {{"input_tokens": 1, "output_tokens": 1}}}})
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """Two machines on one broker; NORTH is also the sender, SOUTH accepted its grant."""
    programs = tmp_path / "programs"
    place_program(programs, "codex", AGENT.format(marks=tmp_path / "marks"))
    (tmp_path / "src").mkdir(exist_ok=True)
    with running_broker(tmp_path / "broker") as broker:
        machines = {}
        for name in HOSTS:
            home = tmp_path / name.lower()
            home.mkdir()
            machines[name] = Machine(
                home=home, programs=programs, redis_url=broker.url, name=name
            )  # no sandbox: the agents leave their marks in a folder of the test
        roots = ("--repo-root", str(tmp_path / "src"))
        north, south = machines["NORTH"], machines["SOUTH"]
        north.succeed("init", "--host", "NORTH", "--lanes", ",".join(LANES), *roots)
        grant = tmp_path / "south.grant"
        north.succeed("keys", "grant", "SOUTH", "--lanes", ",".join(LANES), "--out", str(grant))
        south.succeed("keys", "accept", str(grant), "--host", "SOUTH", *roots)
        yield machines


def test_twenty_jobs_over_two_lanes_and_both_addresses_run_once_where_they_were_sent(
    hosts: dict[str, Machine], tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "src" / "app", {"README.md": "an app\n"})
    sender = hosts["NORTH"]
    with ExitStack() as running:
        for machine in hosts.values():
            running.enter_context(machine.listening(*LANES, options=("--concurrency", "2")))
        sent = [send(sender, repo, number) for number in range(JOBS)]
        job_ids = [job_id for job_id, _ in sent]
        assert len(set(job_ids)) == JOBS
        waited = sender.run("wait", *job_ids, "--timeout", "150", "--json", seconds=200)
        assert waited.returncode == 0, waited.stderr + waited.stdout
        results = {job_id: json.loads(sender.succeed("result", job_id)) for job_id in job_ids}

    starts = Counter(path.name.split(".")[0] for path in (tmp_path / "marks").iterdir())
    assert starts == {str(number): 1 for number in range(JOBS)}
    for number, (job_id, target) in enumerate(sent):
        result = results[job_id]
        assert result["status"] == "completed"
        assert result["changed_files"] == [f"made-by-{number}.txt"]
        assert result["worktreePath"] == f"{repo}-agents/{job_id}"
        assert result["branch"] == f"wt/{job_id}/FLT-{number}"
        assert result["host"] == target if target else result["host"] in HOSTS
        assert job_id in journaled(hosts[result["host"]])
        other = next(machine for name, machine in hosts.items() if name != result["host"])
        assert job_id not in started(other)
    assert git(repo, "status", "--porcelain") == ""


def send(sender: Machine, repo: Path, number: int) -> tuple[str, str | None]:
    """Enqueue job `number`, every other one to a named host; return its id and that host."""
    lane = LANES[number % 2]
    target = None if number % 4 < 2 else HOSTS[number // 4 % 2]
    payload = {
        "agent": "codex",
        "task": f"This is job number {number}.",
        "repo": str(repo),
        "ticket": f"FLT-{number}",
    }
    document = json.loads(
        sender.succeed(
            *("enqueue", "--kind", "run_agent", "--lane", lane, "--payload-file", "-", "--json"),
            *(("--targets", target) if target else ()),
            stdin=json.dumps(payload),
        )
    )
    (job,) = document["jobs"]
    return job["jobId"], target


def journaled(machine: Machine) -> set[str]:
    """Return the ids of all jobs in a machine's journal."""
    return _ids(machine, "SELECT jti FROM jobs")


def started(machine: Machine) -> set[str]:
    """Return the ids of the jobs that a machine's journal says were started."""
    return _ids(machine, "SELECT job FROM transitions WHERE state = 'started'")


def _ids(machine: Machine, query: str) -> set[str]:
    path = machine.home / "fleet" / "state" / "journal.sqlite3"
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return {row[0] for row in connection.execute(query)}
    finally:
        connection.close()
