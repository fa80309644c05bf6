"""Nobody serves the lane: the job waits, and everybody who asks is told why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.fleet import Machine, make_repository, place_program, wait_until

AGENT = """
import json, sys
if "--version" in sys.argv:
    sys.exit()
sys.stdin.read()
open("made.txt", "w").write("made")
print(json.dumps({"type": "turn.completed", "usage": {"input_tokens": 1}}), flush=True)
"""


@pytest.fixture
def machine(broker: Broker, tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "src").mkdir()
    place_program(tmp_path / "programs", "codex", AGENT)
    machine = Machine(home, tmp_path / "programs", broker.url, "NORTH")
    roots = ("--repo-root", str(tmp_path / "src"))
    machine.succeed("init", "--host", "NORTH", "--lanes", "BUILD,REVIEW", *roots)
    return machine


def send(machine: Machine, repo: Path, *more: str) -> str:
    payload = {"agent": "codex", "task": "Do it.", "repo": str(repo), "ticket": "T-1"}
    words = ("enqueue", "--lane", "BUILD", "--payload-file", "-", "--json", *more)
    (job,) = json.loads(machine.succeed(*words, stdin=json.dumps(payload)))["jobs"]
    return str(job["jobId"])


def row_of(machine: Machine, job_id: str) -> dict[str, object]:
    rows = machine.read_json("jobs")["jobs"]
    return next(row for row in rows if row["jobId"] == job_id)


def test_a_job_that_nobody_serves_says_so_until_somebody_does(
    machine: Machine, tmp_path: Path
) -> None:
    """K67: silence is told, in `jobs` and in `hosts`, and the job is not lost."""
    repo = make_repository(tmp_path / "src" / "app", {"a": "b\n"})
    job_id = send(machine, repo)
    row = row_of(machine, job_id)
    assert (row["state"], row["why"]) == ("queued", "no listener serves lane BUILD")
    assert [host["state"] for host in machine.read_json("hosts")["hosts"]] == ["never_seen"]
    with machine.listening("REVIEW"):
        row = row_of(machine, job_id)
        assert (row["state"], row["why"]) == ("queued", "no listener serves lane BUILD")
        (host,) = machine.read_json("hosts")["hosts"]
        assert (host["state"], host["lanes"]) == ("live", ["REVIEW"])
    with machine.listening("BUILD"):
        waited = machine.run("wait", job_id, "--timeout", "120")
        assert waited.returncode == 0, waited.stderr
        wait_until(lambda: row_of(machine, job_id)["state"] == "completed", "it has run")


def test_a_job_for_a_host_that_was_never_seen_says_so(machine: Machine, tmp_path: Path) -> None:
    """K67: the same for a job that is addressed to one host."""
    repo = make_repository(tmp_path / "src" / "app", {"a": "b\n"})
    row = row_of(machine, send(machine, repo, "--targets", "NORTH"))
    assert (row["state"], row["why"]) == ("queued", "host NORTH was never seen")
