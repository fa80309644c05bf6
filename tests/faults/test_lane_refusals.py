"""A lane's job that policies refuse: another host does it; it fails when every one has refused."""

from __future__ import annotations

from pathlib import Path

from dispatch.private_files import write_private_file
from tests.faults.test_lane_faults import LANE_AUD, broker, listening, repo
from tests.support.broker import Broker
from tests.support.hosts import Host, make_host, make_sender

__all__ = ["broker", "repo"]


def allow(host: Host, *kinds: str) -> None:
    named = ", ".join(f'"{kind}"' for kind in kinds)
    text = f'[senders."*"]\nkinds = [{named}]\n'
    write_private_file(host.fleet_home / "policy.toml", text.encode(), replace=True)


def test_a_refused_lane_job_of_any_kind_is_done_by_another_host_and_fails_when_none_is_left(
    broker: Broker, repo: Path, tmp_path: Path
) -> None:
    sender = make_sender(tmp_path / "sender")
    hosts = [make_host(tmp_path, broker, sender, repo, name) for name in ("ONE", "TWO")]
    first, second = hosts
    allow(first, "ping")
    allow(second, "shell")
    with listening(*hosts):
        ping = first.push(first.job(aud=LANE_AUD, kind="ping", payload={}))
        shell = first.push(first.job(aud=LANE_AUD, kind="pwsh", payload={"command": "echo done"}))
        assert first.result(ping, seconds=120).host == "ONE"
        done = first.result(shell, seconds=120)
        assert (done.host, done.status.value, done.stdoutTail) == ("TWO", "completed", "done\n")

        nobody = first.push(first.job(aud=LANE_AUD))
        failed = first.result(nobody, seconds=120)
        assert [risk.code for risk in failed.risks] == ["lane_declined"]
        for name in ("ONE", "TWO"):
            assert f"{name}: kind run_agent is not allowed" in failed.summary
        states = [host.journal_history(nobody) for host in hosts]
        assert all("refused" in history for history in states)
