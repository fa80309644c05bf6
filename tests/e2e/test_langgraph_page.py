"""The supervisor of docs/langgraph.md, run as printed against a real broker and a real listener."""

from __future__ import annotations

import re
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import running_broker
from tests.support.fleet import Machine, make_repository, place_program

PAGE = Path(__file__).resolve().parents[2] / "docs" / "langgraph.md"

CLAUDE_OUT_OF_LIMIT = """
import json, sys
say = lambda event: print(json.dumps(event), flush=True)
say({"type": "system", "subtype": "init", "session_id": "c1"})
say({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 4000000000}})
say({"type": "result", "subtype": "success", "is_error": True, "api_error_status": 429,
     "result": "limit reached", "session_id": "c1"})
sys.exit(1)
"""

CODEX_WORKS = """
import json, sys
brief = sys.stdin.read()
open("fixed.txt", "w").write(brief)
say = lambda event: print(json.dumps(event), flush=True)
say({"type": "thread.started", "thread_id": "x1"})
say({"type": "item.completed", "item": {"type": "agent_message", "text": "fixed"}})
say({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}})
"""

GROK_ASKS = """
import json, sys
print(json.dumps({"type": "end", "stopReason": "cancelled", "sessionId": "g1"}), flush=True)
sys.exit(1)
"""

GEMINI_BREAKS = """
import sys
print("panic: nothing works", file=sys.stderr)
sys.exit(3)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """One machine that sends and serves, with a script under each agent's name."""
    programs = tmp_path / "programs"
    scripts = {
        "claude": CLAUDE_OUT_OF_LIMIT,
        "codex": CODEX_WORKS,
        "grok": GROK_ASKS,
        "agy": GEMINI_BREAKS,
    }
    for name, text in scripts.items():
        place_program(programs, name, text)
    (tmp_path / "src").mkdir(exist_ok=True)
    with running_broker(tmp_path / "broker") as broker:
        home = tmp_path / "home"
        home.mkdir()
        machine = Machine(
            home=home, programs=programs, redis_url=broker.url, name="GRAPH", sandbox="auto"
        )
        machine.succeed(
            "init",
            "--host",
            "GRAPH",
            "--lanes",
            "MULTI-MODEL",
            "--repo-root",
            str(tmp_path / "src"),
        )
        yield machine


def test_the_printed_supervisor_routes_on_every_status(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repository(tmp_path / "src" / "app", {"README.md": "an app\n"})
    for name in ("FLEET_DISPATCH_HOME", "FLEET_DISPATCH_REDIS_URL"):
        monkeypatch.setenv(name, machine.environment[name])
    from dispatch import FleetClient

    build_supervisor = printed_function()
    with machine.listening("MULTI-MODEL"), FleetClient.open() as client:
        app, command = compiled(build_supervisor(client, wait_s=60.0))

        rerouted = app.invoke(brief(repo, ["claude", "codex"]), thread("reroute"))
        assert rerouted["result"]["agent"] == "codex"
        assert rerouted["result"]["status"] == "completed"
        (pause,) = rerouted["__interrupt__"]  # nothing validated the work: a person looks first
        assert pause.value["worktree"] == rerouted["result"]["worktreePath"]
        jobs_before = len(client.jobs())
        landed = app.invoke(command(resume="land"), thread("reroute"))
        assert landed["outcome"] == "landed"
        assert len(client.jobs()) == jobs_before  # the answer started no second run

        asked = app.invoke(brief(repo, ["grok"]), thread("ask"))
        (pause,) = asked["__interrupt__"]
        assert pause.value["status"] == "approval_required"

        assert app.invoke(brief(repo, ["claude"]), thread("limit"))["outcome"] == "rate_limited"
        assert app.invoke(brief(repo, ["gemini"]), thread("broken"))["outcome"] == "failed"


def printed_function() -> Any:
    """Return `build_supervisor` as the page prints it."""
    block = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    module = types.ModuleType("printed_supervisor")
    sys.modules[module.__name__] = module  # where the annotations of its classes are resolved
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # langgraph's own deprecations are not this page's
        exec(compile(block, str(PAGE), "exec"), module.__dict__)
    return module.__dict__["build_supervisor"]


def compiled(graph: Any) -> tuple[Any, Any]:
    """Return the graph compiled with a checkpointer, and langgraph's Command."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    return graph.compile(checkpointer=InMemorySaver()), Command


def brief(repo: Path, agents: list[str]) -> dict[str, Any]:
    """Return the state that a supervisor starts from."""
    return {
        "task": "Fix it.",
        "repo": str(repo),
        "ticket": "FLT-2",
        "lane": "MULTI-MODEL",
        "agents": agents,
    }


def thread(name: str) -> dict[str, Any]:
    """Return the configuration of one thread of the graph."""
    return {"configurable": {"thread_id": name}}
