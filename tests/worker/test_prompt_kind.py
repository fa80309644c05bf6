"""Kind `prompt` through a real listener: the answer comes back, and nobody gets it unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.run_agent import AgentName
from dispatch.pools.limit import Pool, PoolLimit, Unit
from dispatch.pools.pool_book import PoolBook
from dispatch.private_files import write_private_file
from dispatch.queue.link import connect
from tests.support.broker import Broker, running_broker
from tests.support.fleet import place_program
from tests.support.hosts import Host, listening_host

# Says what it was given and where; fails, hangs or reports a limit when asked to.
CLI = """
import os, sys, time
if {"--version", "--help"} & set(sys.argv):
    sys.exit()
asked = sys.stdin.read() or " ".join(sys.argv[1:])
if "hang" in asked:
    time.sleep(600)
if "fail" in asked:
    sys.exit("it failed")
if "limit" in asked:
    sys.exit("You've hit your usage limit. Try again at 8:03 PM.")
print("asked:", asked, "in", os.path.basename(os.getcwd()), os.listdir("."))
print("secret:", os.environ.get("FLEET_DISPATCH_HOME", "none"))
"""
POLICY = '[senders."*"]\nkinds = ["prompt"]\nagents = ["codex", "claude", "ollama"]\n'


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture(scope="module")
def host(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    with listening_host(tmp_path_factory.mktemp("fleet"), broker) as host:
        for name in ("codex", "claude", "ollama"):
            place_program(host.home / "bin", name, CLI)
        policy = host.fleet_home / "policy.toml"
        write_private_file(policy, POLICY.encode(), replace=True)
        yield host


def ask(host: Host, agent: str, prompt: str, **more: object):  # type: ignore[no-untyped-def]
    payload = {"agent": agent, "prompt": prompt, **more}
    return host.result(host.push(host.job(payload=payload, kind="prompt")), seconds=150)


@pytest.mark.parametrize(("agent", "more"), [("codex", {}), ("ollama", {"model": "tiny"})])
def test_an_answer_comes_back_from_an_empty_folder_and_no_worktree_is_made(
    host: Host, agent: str, more: dict[str, object]
) -> None:
    result = ask(host, agent, "What is 2 + 2?", **more)
    assert result.status == "completed", result
    assert "asked: What is 2 + 2? in empty []" in result.stdoutTail
    assert "secret: none" in result.stdoutTail
    assert result.exitCode == 0
    assert not Path(f"{host.repo}-agents").exists()


def test_each_end_has_its_status(host: Host, broker: Broker) -> None:
    assert ask(host, "codex", "please fail").status == "failed"
    assert ask(host, "codex", "the limit").status == "rate_limited"
    assert ask(host, "claude", "hang", timeoutSec=1).status == "timed_out"
    refused = ask(host, "grok", "hi")
    assert (refused.status, refused.risks[0].code) == ("failed", "agent")
    connection = connect(broker.url)
    pool = Pool(AgentName.CLAUDE)
    PoolBook(connection, broker.url).set_limit(pool, PoolLimit(Unit.RUNS, 3_600, 0, 1))
    connection.close()
    denied = ask(host, "claude", "hi")
    assert denied.status == "rate_limited"
    assert "claude/default" in denied.summary
