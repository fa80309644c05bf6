"""A job from `run-agent` and from the queue in the sandbox that a host chooses by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts import naming
from tests.support.broker import Broker, broker
from tests.support.desk import Desk
from tests.support.fleet import git, make_repository, place_program, wait_until
from tests.support.hosts import LANE, Host, make_host, make_sender
from tests.support.tools import require_tool

__all__ = ["broker"]

pytestmark = pytest.mark.linux

COMMITTER = """
import os, subprocess, sys
if {"--version", "--help"} & set(sys.argv):
    sys.exit(print("scripted-codex 1.2.3"))
sys.stdin.read()
with open("new.txt", "w") as file:
    file.write("new\\n")
me = ("-c", "user.name=Agent", "-c", "user.email=agent@example.org")
subprocess.run(["git", "add", "-A"], check=True)
subprocess.run(["git", *me, "commit", "-q", "-m", "work"], check=True)
"""


def test_a_person_s_run_is_in_a_box_without_any_setting(tmp_path: Path) -> None:
    require_tool("bwrap")
    desk = Desk(tmp_path)
    desk.machine.sandbox = ""
    keys = desk.machine.home / "fleet" / "keys"
    keys.mkdir(parents=True, mode=0o700)
    (keys / "mine.key").write_text("secret")
    desk.agent(
        "Path('new.py').write_text('x = 1')\n"
        "me = ('-c', 'user.name=A', '-c', 'user.email=a@example.org')\n"
        "subprocess.run(['git', 'add', '-A'], check=True)\n"
        "subprocess.run(['git', *me, 'commit', '-q', '-m', 'work'], check=True)\n"
        f"say('keys there: ' + str(Path({str(keys)!r}).exists()))\n"
        "finish('keys there: ' + str(Path(" + repr(str(keys)) + ").exists()))\n"
    )
    done = desk.run("--validate-cmd", "git log -1 --format=%s | grep work")
    result = done.result
    assert (done.code, result["status"], result["known_risks"]) == (0, "completed", [])
    assert result["sandbox"]["mode"] == "bwrap"
    assert result["sandbox"]["notEnforced"] == ["network"]
    assert "keys there: False" in result["summary"]
    assert git(desk.repo, "log", "--format=%s", result["branch"]).split()[0] == "work"


def boxed(host: Host, mode: str, policy: str = "") -> Host:
    """Return `host` in sandbox `mode`; `policy` is added to its sender's section."""
    host.extra["FLEET_DISPATCH_SANDBOX"] = mode
    place_program(host.home / "bin", "codex", COMMITTER)
    file = host.fleet_home / "policy.toml"
    file.write_text(f"{file.read_text()}{policy}\n")
    file.chmod(0o600)
    return host


def test_a_lane_s_job_goes_to_the_host_whose_box_enforces_what_the_policy_asks_for(
    broker: Broker, tmp_path: Path
) -> None:
    require_tool("bwrap")
    repo = make_repository(tmp_path / "repo", {"readme.txt": "hello\n"})
    sender = make_sender(tmp_path / "sender")
    asks = 'require_sandbox = ["keys", "sockets"]'
    strong, weak = (
        boxed(make_host(tmp_path, broker, sender, repo, name), mode, asks)
        for name, mode in (("STRONG", "bwrap"), ("WEAK", "none"))
    )
    weak.start()
    try:
        refused = weak.result(weak.push(weak.job()))
        assert [risk.code for risk in refused.risks] == ["sandbox"]
        assert refused.attempts == 0
        strong.start()
        try:
            wait_until(lambda: " listening " in strong.log, "both listen")
            job = weak.push(weak.job(aud=naming.lane_audience(LANE)))
            result = weak.result(job)
            assert (result.host, result.status) == ("STRONG", "completed")
            assert result.sandbox.mode == "bwrap"
            assert git(repo, "log", "--format=%s", result.branch).split()[0] == "work"
        finally:
            strong.stop()
    finally:
        weak.stop()
