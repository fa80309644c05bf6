"""Runs at the edges: odd names, a worktree that is gone, a host whose own files are touched."""

from __future__ import annotations

import base64
import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from contracts.run_agent import AgentName, Status
from runagent.agents import AgentPreset
from tests.support.agents.bench import GOOD, Bench, codes, git


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_host_may_name_its_cli_by_an_absolute_path(bench: Bench) -> None:
    elsewhere = bench.folder / "elsewhere"
    elsewhere.mkdir()
    for path in bench.bin.glob("claude*"):
        path.rename(elsewhere / path.name)
    preset = AgentPreset((str(elsewhere / "claude"),), ("--permission-mode", "acceptEdits"))
    (elsewhere / "claude.plan.json").write_text('[[["write", "a.txt", "a"], ["end"]]]')
    result = bench.run("claude", GOOD, ports={"presets": {AgentName.CLAUDE: preset}})
    assert result.changed_files == ("a.txt",)


def test_an_absolute_path_that_leads_nowhere_is_named(bench: Bench) -> None:
    preset = AgentPreset(("/nowhere/claude",), ())
    result = bench.run("claude", ports={"presets": {AgentName.CLAUDE: preset}})
    assert "/nowhere/claude" in result.summary
    assert bench.is_untouched()


def test_a_name_that_is_not_utf8_can_be_recovered(bench: Bench) -> None:
    result = bench.run("claude", validateCommand="printf x > \"$(printf 'caf\\351')\"")
    assert "caf\\xe9" in result.changed_files
    assert base64.b64decode(result.paths_base64["caf\\xe9"]) == b"caf\xe9"


def test_raw_output_that_cannot_be_kept_is_a_risk_and_no_more(bench: Bench) -> None:
    order = bench.order("claude")
    (bench.runtime_dir(order.job_id) / "attempt-1.stdout").mkdir(parents=True)
    result = bench.run("claude", job_id=order.job_id, validateCommand="true")
    assert result.status is Status.COMPLETED
    assert "tails_not_kept" in codes(result)
    assert result.needs_human_review


def test_a_look_that_fails_is_never_read_as_nothing_changed(bench: Bench) -> None:
    order = bench.order("claude", limit_s=60)
    shadow = bench.runtime_dir(order.job_id) / "shadow"
    # Where the files' own bytes say that nothing moved since the last look, git is not asked again.
    command = f"rm -rf {shadow} && echo more >> src/new.py"
    result = bench.run("claude", job_id=order.job_id, validateCommand=command)
    assert result.needs_human_review
    assert codes(result) - {"no_changes", "validator_rewrote"}


def test_an_agent_that_removes_its_worktree_harms_only_itself(bench: Bench) -> None:
    script = bench.bin / "grok"
    script.write_text('#!/bin/sh\nrm -rf "$PWD"\necho \'{"type":"end","stopReason":"end_turn"}\'\n')
    result = bench.run("grok")
    assert result.needs_human_review
    assert git(bench.repo, "status", "--porcelain") == ""
    assert (bench.repo / "README.md").exists()


def test_a_ctrl_c_in_the_middle_of_an_attempt_ends_the_agent_and_is_a_result(
    bench: Bench,
) -> None:
    pid_file = bench.bin / "hanging.pid"

    def press() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and not (pid_file.exists() and pid_file.stat().st_size):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    result = bench.run("claude", (("write", "half.txt", "half"), ("hang",)))
    thread.join()
    assert result.status is Status.FAILED
    assert "interrupted" in codes(result)
    assert result.changed_files == ("half.txt",)
    assert not psutil.pid_exists(int(pid_file.read_text()))


def test_a_cli_that_prints_text_is_summed_up_by_the_end_of_it(bench: Bench) -> None:
    script = bench.bin / "claude"
    script.write_text("#!/bin/sh\necho 'First I looked.'\necho 'Then I wrote.'\n")
    assert bench.run("claude").summary == "First I looked.\nThen I wrote."


def test_a_cli_that_says_nothing_is_summed_up_too(bench: Bench) -> None:
    script = bench.bin / "claude"
    script.write_text("#!/bin/sh\nexit 0\n")
    assert bench.run("claude").summary == "The agent said nothing."


def test_a_failure_is_summed_up_by_what_the_cli_reported(bench: Bench) -> None:
    steps = (("say", "Trying."), ("err", "noise"), ("print", '{"type":"error","message":"boom"}'))
    assert bench.run("codex", (*steps, ("exit", 1))).summary == "boom"
