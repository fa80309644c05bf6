"""The listener as a whole: real process, real broker, real repository, a scripted agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from contracts import naming
from tests.support.broker import Broker
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, NO_BOX, Host, make_host, make_sender

LANE_AUD = naming.lane_audience(LANE)


def beat(host: Host) -> dict[str, object]:
    with host.broker.client() as connection:
        return json.loads(connection.get(naming.host_key(host.name)) or b"{}")


def shown(host: Host, job_id: str) -> dict[bytes, bytes]:
    with host.broker.client() as connection:
        return connection.hgetall(naming.job_key(job_id))


def test_an_honest_job_is_run_once_and_its_signed_result_comes_back(host: Host) -> None:
    result = host.run_honest_job()
    assert result.changed_files == ("starts.txt",)
    assert (result.host, result.attempts) == (host.name, 1)
    assert host.starts == 1
    host.published(result.jobId)
    assert shown(host, result.jobId)[b"state"] == b"done"
    journal = host.journal_history(result.jobId)
    assert journal == ["claimed", "started", "agent_done", "validated", "done", "published"]


def test_the_agent_is_a_descendant_of_the_listener(host: Host) -> None:
    job_id = host.start_waiting_job()
    assert any("codex" in " ".join(process.cmdline()) for process in host.family())
    assert shown(host, job_id)[b"state"] == b"started"
    host.release()
    assert host.result(job_id).status == "completed"


def test_a_job_for_the_lane_is_taken_by_the_host_that_serves_it(host: Host) -> None:
    result = host.result(host.push(host.job(aud=LANE_AUD)))
    assert result.status == "completed"
    with host.broker.client() as connection:
        claim = connection.get(naming.claim_key(result.jobId)) or b""
        assert claim.startswith(f"{host.name}/".encode())
        assert connection.keys("fd:taken:*") == []


def test_the_heartbeat_names_lanes_slots_and_agents_with_versions(host: Host) -> None:
    wait_until(lambda: beat(host).get("agents") == {"codex": "1.2.3"}, "the agent is found", 60)
    seen = beat(host)
    assert (seen["host"], seen["lanes"], seen["slots"], seen["free"]) == (host.name, [LANE], 1, 1)
    assert host.process is not None
    assert seen["pid"] == host.process.pid
    job_id = host.start_waiting_job()
    wait_until(lambda: beat(host)["free"] == 0, "the busy slot is seen")
    host.release()
    host.result(job_id)


def test_a_busy_host_leaves_the_next_job_in_the_queue(host: Host) -> None:
    running = host.start_waiting_job()
    waiting = host.push(host.job(aud=LANE_AUD))
    with host.broker.client() as connection:
        queue = naming.rq_list(naming.lane_queue(LANE))
        beats = beat(host)["seenAt"]
        wait_until(lambda: beat(host)["seenAt"] != beats, "the listener looks on")
        assert connection.lrange(queue, 0, -1) == [waiting.encode()]
    host.release()
    for job_id in (running, waiting):
        assert host.result(job_id).status == "completed"


def test_a_drain_lets_the_running_job_finish_and_takes_nothing_new(host: Host) -> None:
    running = host.start_waiting_job()
    assert host.process is not None
    host.process.send_signal(signal.SIGTERM)
    wait_until(lambda: " draining " in host.log, "the listener drains")
    waiting = host.push(host.job())
    host.release()
    assert host.process.wait(60) == 0
    assert host.result(running).status == "completed"
    assert host.stored(waiting) is None
    host.process = None
    host.start()
    assert host.result(waiting).status == "completed"


def test_a_second_signal_ends_the_job_as_interrupted_and_keeps_its_work(host: Host) -> None:
    running = host.start_waiting_job()
    assert host.process is not None
    host.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "a second signal stops them" in host.log, "the listener says how to go on")
    host.process.send_signal(signal.SIGTERM)
    assert host.process.wait(90) == 0
    host.process = None
    result = host.result(running)
    assert result.status == "failed"
    assert "interrupted" in {risk.code for risk in result.risks}
    assert (Path(result.worktreePath) / "starts.txt").exists()


def run_listen(host: Host, *, lane: bool = True) -> subprocess.CompletedProcess[str]:
    command = host.command if lane else host.command[: -2 * len(host.lanes)]
    return subprocess.run(
        command, env=host.environment, cwd=host.home, capture_output=True, text=True, timeout=60
    )


def test_a_second_listener_of_one_host_and_home_is_refused(host: Host) -> None:
    second = run_listen(host)
    assert second.returncode == 2
    assert "runs already" in second.stderr
    host.run_honest_job()


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ("policy.toml", "fleet-dispatch init"),
        ("keys", "fleet-dispatch"),
        ("lane", "--lane"),
        ("lane key", "no accepted grant covers lane"),
    ],
)
def test_a_listener_that_could_do_nothing_says_what_is_missing(
    missing: str, says: str, broker: Broker, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo", {"a": "b"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    if missing == "policy.toml":
        (host.fleet_home / "policy.toml").unlink()
    elif missing == "keys":
        for file in (host.fleet_home / "keys").iterdir():
            file.unlink()
    elif missing == "lane key":
        host.lanes = ("OTHER",)
    done = run_listen(host, lane=missing != "lane")
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_that_others_can_read_is_refused(broker: Broker, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"a": "b"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    (host.fleet_home / "policy.toml").chmod(0o644)
    done = run_listen(host)
    assert done.returncode == 2
    assert "chmod 600" in done.stderr


@contextmanager
def two_hosts(broker: Broker, tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Yield two listening hosts; the agent of the second is not on its PATH."""
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    sender = make_sender(tmp_path / "sender")
    able, lacking = (make_host(tmp_path, broker, sender, repo, name) for name in ("ABLE", "LACKS"))
    (lacking.home / "bin" / "codex").unlink()
    lacking.start()
    try:
        able.start()
        try:
            for host in (able, lacking):
                wait_until(lambda host=host: bool(beat(host)), "a heartbeat")
            yield able, lacking
        finally:
            able.stop()
    finally:
        lacking.stop()


def test_a_host_that_cannot_do_a_job_of_the_lane_leaves_it_to_one_that_can(
    broker: Broker, tmp_path: Path
) -> None:
    with two_hosts(broker, tmp_path) as (able, lacking):
        blocker = able.start_waiting_job()
        jobs = [able.push(able.job(aud=LANE_AUD)) for _ in range(2)]
        wait_until(lambda: lacking.log.count(" declined ") == 2, "the other host declines both")
        cpu = psutil.Process(lacking.process.pid).cpu_times() if lacking.process else None
        beats = beat(lacking)["seenAt"]
        wait_until(lambda: beat(lacking)["seenAt"] != beats, "time passes")
        assert lacking.process is not None
        spent = psutil.Process(lacking.process.pid).cpu_times()
        assert cpu is not None
        assert spent.user - cpu.user < 1.5, "it does not spin"
        assert lacking.log.count(" declined ") == 2, "it does not decline twice"
        able.release()
        for job_id in (blocker, *jobs):
            result = able.result(job_id)
            assert (result.status, result.host) == ("completed", able.name)
        assert os.path.exists(able.home / "starts")
        assert able.starts == 3


def test_a_job_that_every_host_of_the_lane_declines_fails_and_names_each_reason(
    broker: Broker, tmp_path: Path
) -> None:
    with two_hosts(broker, tmp_path) as (able, _lacking):
        payload = able.payload(repo=str(tmp_path / "nowhere"))
        result = able.result(able.push(able.job(aud=LANE_AUD, payload=payload)))
        assert result.status == "failed"
        assert "ABLE: " in result.summary
        assert "LACKS: " in result.summary
        assert able.starts == 0


def test_one_host_alone_fails_a_lane_job_that_it_cannot_do(host: Host) -> None:
    payload = host.payload(repo="/nowhere/at/all")
    result = host.result(host.push(host.job(aud=LANE_AUD, payload=payload)))
    assert result.status == "failed"
    assert f"{host.name}: " in result.summary
    host.run_honest_job()


def test_lines_of_state_name_job_and_host_and_nothing_of_the_payload(host: Host) -> None:
    payload = host.payload(task="a very secret task", validateCommand="true # also secret")
    result = host.result(host.push(host.job(payload=payload)))
    host.published(result.jobId)
    assert result.jobId in host.log
    assert "secret" not in host.log


def test_a_mapped_path_is_used_here_and_the_request_stays_as_it_was(
    broker: Broker, tmp_path: Path
) -> None:
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    host = make_host(tmp_path, broker, make_sender(tmp_path / "sender"), repo)
    config = host.fleet_home / "config.toml"
    config.write_text(f"{NO_BOX}[repo_paths]\n'C:\\src' = \"{tmp_path}\"\n")
    config.chmod(0o600)
    host.start()
    try:
        payload = host.payload(repo="c:\\SRC\\repo")
        result = host.result(host.push(host.job(payload=payload)))
        assert result.status == "completed"
        assert result.worktreePath.startswith(f"{repo}-agents/")
    finally:
        host.stop()


def test_a_host_that_ends_in_order_says_farewell_and_takes_it_back_when_it_is_here_again(
    host: Host,
) -> None:
    farewell = naming.farewell_key(host.name)
    with host.broker.client() as connection:
        assert host.stop() == 0
        assert connection.get(naming.host_key(host.name)) is None
        said = connection.get(farewell)
        assert said is not None
        assert said.isdigit()
        host.start()
        wait_until(lambda: connection.exists(naming.host_key(host.name)) == 1, "a heartbeat")
        assert not connection.exists(farewell)
        host.kill()
        wait_until(lambda: connection.exists(naming.host_key(host.name)) == 0, "silence", 60)
        assert not connection.exists(farewell)
