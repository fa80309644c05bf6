"""Stuck agent: one that ignores TERM, hides in sessions of its own, or forks without end.

Five seconds after the deadline nothing of it is left. Each program is one that outlives a plain
kill of its group (tests/runagent/test_process_tree.py shows that).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.run_agent import Status
from runagent.host import run_agent
from tests.support.agents.bench import Bench
from tests.support.fleet import place_program
from tests.support.processes import (
    break_chain,
    hunted,
    is_chain_beating,
    runaway_argv,
    wait_until,
    with_token,
)

pytestmark = pytest.mark.linux

# What the agent's descendants do, and at last the agent itself; see tests/support/processes.py.
STUCK = {
    "an agent that ignores TERM": ("deafstay",),
    "a child in a session of its own that ignores TERM": ("double", "deafstay"),
    "a double fork behind a leader that goes": ("double", "leave"),
    "a child without our environment": ("clean", "deafstay"),
    "a child that forks again whenever it is looked at": ("chain", "deafstay"),
    "a storm of 120 processes, some in groups of their own": ("storm", "deafstay"),
}


@pytest.mark.parametrize("words", STUCK.values(), ids=STUCK.keys())
def test_a_stuck_agent_is_gone_after_its_deadline(words: tuple[str, ...], tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    with hunted() as token:
        argv = runaway_argv(tmp_path, token, *words)
        place_program(bench.bin, "claude", f"import os\nos.execv({argv[0]!r}, {argv!r})\n")
        order = bench.order("claude", limit_s=2.0)
        result = run_agent(order, bench.ports(order.job_id))
        assert result.status is Status.TIMED_OUT
        gone = wait_until(lambda: not with_token(token), within_s=5.0)
        assert gone, f"survivors: {with_token(token)}"
        assert not is_chain_beating(tmp_path)
        if (tmp_path / "runaway.py.beat").exists():
            break_chain(tmp_path)
    assert result.worktreePath, "the tree is kept"
    assert Path(result.worktreePath).is_dir()
