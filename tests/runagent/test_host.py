"""Whole runs: real git, real processes, agents that play a plan."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psutil
import pytest

from contracts.run_agent import AgentName, Status, ValidationSource
from runagent.process import ProcessSpec, run, system_runner
from tests.support.agents.bench import GOOD, Bench, codes, git, plan

RETRIED = "first attempt exited nonzero; result reflects the retry in the same worktree"
BAD = (("say", "I cannot."), ("exit", 3))
AWKWARD = (
    "-rf / 'single' \"double\" $(touch /tmp/x) `id` %PATH% \\ back\n\n"
    "  second line\t\u00e9\u4e2d\U0001f600 --"
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize("agent", [name.value for name in AgentName])
def test_each_agent_writes_in_its_worktree_and_is_judged_by_the_host(
    bench: Bench, agent: str
) -> None:
    result = bench.run(agent, GOOD, validateCommand="test -f src/new.py")
    assert result.status is Status.COMPLETED
    assert result.changed_files == result.agent_changed_files == ("src/new.py",)
    assert result.tests_attempted == ("test -f src/new.py => exit 0",)
    assert (result.known_risks, result.needs_human_review) == ((), False)
    assert result.summary == "I wrote src/new.py."
    assert result.sessionId.startswith("session-")
    assert (result.exitCode, result.attempts, result.mode) == (0, 1, "build")
    assert result.worktreePath == f"{bench.repo}-agents/{result.jobId}"
    assert result.branch == f"wt/{result.jobId}/T-1"
    assert result.baseRef == "master"
    assert result.baseCommit == git(bench.repo, "rev-parse", "master").strip()
    assert result.durationSeconds > 0
    assert (Path(result.worktreePath) / "src/new.py").read_text() == "x = 1\n"
    assert git(bench.repo, "status", "--porcelain") == ""


@pytest.mark.parametrize("agent", [name.value for name in AgentName])
@pytest.mark.parametrize("task", [AWKWARD, AWKWARD[1:], "--help", "\n-x"])
def test_an_awkward_prompt_arrives_whole(bench: Bench, agent: str, task: str) -> None:
    bench.run(agent, GOOD, task=task)
    (call,) = bench.calls(agent)
    assert call["prompt"] == task


@pytest.mark.parametrize("agent", [name.value for name in AgentName])
def test_an_agent_starts_in_the_worktree_with_stdin_closed_and_a_chosen_environment(
    bench: Bench, agent: str
) -> None:
    bench.environment |= {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_SESSION_ID": "outer",
        "CLAUDE_CODE_MESSAGING_TOKEN": "outer",
        "AI_AGENT": "outer",
        "GIT_DIR": "/elsewhere",
        "GIT_INDEX_FILE": "/elsewhere/index",
        "FLEET_DISPATCH_REDIS_URL": "redis://:secret@broker/0",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "MY_TOOL_HOME": "/opt/tool",
    }
    result = bench.run(agent, GOOD, ports={"inherit": ("MY_TOOL_HOME",)})
    (call,) = bench.calls(agent)
    assert call["cwd"] == call["place"] == result.worktreePath
    assert not call["stdin_had_bytes"]
    assert call["env"]["TOKENROI_CONTEXT"] == "fleet-dispatch"
    assert call["env"]["MY_TOOL_HOME"] == "/opt/tool"
    assert call["env"]["PATH"].startswith(str(bench.bin))
    hidden = ("CLAUDE_CODE_SESSION", "CLAUDE_CODE_MESSAGING", "CLAUDECODE", "AI_", "GIT_", "AWS_")
    assert not [name for name in call["env"] if name.startswith(hidden)]
    assert "FLEET_DISPATCH_REDIS_URL" not in call["env"]


def test_the_host_s_own_setting_wins_over_an_agent_s_default(bench: Bench) -> None:
    bench.run("claude")
    bench.environment["CLAUDE_CODE_MAX_RETRIES"] = "1"
    bench.run("claude")
    assert [call["env"]["CLAUDE_CODE_MAX_RETRIES"] for call in bench.calls("claude")] == ["5", "1"]


def test_gemini_cli_serves_where_the_host_names_it(bench: Bench) -> None:
    from runagent.agents import AgentPreset

    plan(bench.bin, "gemini", GOOD)
    preset = AgentPreset(("gemini",), ())
    result = bench.run("gemini", GOOD, ports={"presets": {AgentName.GEMINI: preset}})
    assert result.sessionId == "session-gemini"
    assert result.changed_files == ("src/new.py",)


@pytest.mark.parametrize("program", ["agy", "codex"])
def test_control_without_its_option_an_agent_of_that_camp_works_elsewhere(
    bench: Bench, program: str
) -> None:
    plan(bench.bin, program, GOOD)
    elsewhere = {"agy": ".gemini/antigravity-cli/scratch", "codex": "last-codex-folder"}[program]
    cwd = bench.folder / "tree"
    cwd.mkdir()
    argv = {"agy": ("-p", "x"), "codex": ("exec", "-")}[program]
    run(
        system_runner(),
        ProcessSpec(
            argv=(program, *argv), cwd=str(cwd), env=bench.environment, timeout_s=30, stdin=b""
        ),
    )
    assert list(cwd.iterdir()) == []
    assert (bench.home / elsewhere / "src/new.py").exists()


def test_what_an_agent_commits_is_part_of_the_answer(bench: Bench) -> None:
    steps = (("write", "src/new.py", "x\n"), ("commit", "work"), ("say", "Done."), ("end",))
    result = bench.run("codex", steps, validateCommand="true")
    assert result.changed_files == ("src/new.py",)
    assert result.headCommit != result.baseCommit
    assert result.needs_human_review is False


def test_an_agent_that_does_nothing_is_told_so(bench: Bench) -> None:
    result = bench.run("claude", (("say", "All done!"), ("end",)), validateCommand="true")
    assert result.status is Status.COMPLETED
    assert result.changed_files == ()
    assert "the agent exited 0 but produced no file changes" in result.known_risks
    assert result.needs_human_review


def test_a_failure_is_tried_once_more_in_the_same_worktree(bench: Bench) -> None:
    first = (("write", "half.txt", "half\n"), ("say", "Oops."), ("exit", 1))
    result = bench.run("codex", first, GOOD, validateCommand="test -f half.txt")
    assert result.status is Status.COMPLETED
    assert (result.attempts, result.exitCode) == (2, 0)
    assert RETRIED in result.known_risks
    assert result.needs_human_review
    assert result.changed_files == ("half.txt", "src/new.py")
    one, two = bench.calls("codex")
    assert one["cwd"] == two["cwd"]
    assert one["prompt"] == two["prompt"]


def test_a_second_failure_is_the_last(bench: Bench) -> None:
    result = bench.run("claude", BAD, validateCommand="touch ran")
    assert result.status is Status.FAILED
    assert len(bench.calls("claude")) == result.attempts == 2
    assert result.exitCode == 3
    assert result.tests_attempted == ()
    assert bench.recorded == [("started", 1), ("started", 2), ("agent_done", 2)]


def test_a_limit_in_the_events_is_not_retried(bench: Bench) -> None:
    limit = (
        ("print", '{"type":"turn.failed","error":{"message":"You\u2019ve hit your usage limit."}}'),
        ("exit", 1),
    )
    result = bench.run("codex", limit)
    assert result.status is Status.RATE_LIMITED
    assert len(bench.calls("codex")) == 1
    assert "usage limit" in result.summary
    assert result.needs_human_review


def test_prose_about_limits_and_a_failure_is_a_failure(bench: Bench) -> None:
    prose = (("say", "I now handle 429 Too Many Requests and quota exceeded."), ("exit", 1))
    assert bench.run("claude", prose).status is Status.FAILED


def test_an_agent_cannot_choose_its_status_with_a_limit_and_exit_0(bench: Bench) -> None:
    forged = (
        ("print", '{"type":"error","message":"429 Too Many Requests"}'),
        ("write", "a", "a"),
        ("end",),
    )
    result = bench.run("codex", forged, validateCommand="exit 7")
    assert result.status is Status.FAILED
    assert result.tests_attempted == ("exit 7 => exit 7",)


def test_a_stalled_approval_is_not_retried(bench: Bench) -> None:
    denied = '{"type":"result","is_error":true,"permission_denials":[{"tool_name":"Bash"}]}'
    result = bench.run("claude", (("print", denied), ("exit", 1)))
    assert result.status is Status.APPROVAL_REQUIRED
    assert len(bench.calls("claude")) == 1


def test_a_denial_with_exit_0_is_never_clean(bench: Bench) -> None:
    denied = '{"type":"result","is_error":false,"permission_denials":[{"tool_name":"Bash"}]}'
    steps = (("write", "a.txt", "a"), ("print", denied))
    result = bench.run("claude", steps, validateCommand="true")
    assert result.status is Status.COMPLETED
    assert "permission_denied" in codes(result)
    assert result.needs_human_review


def test_exit_0_after_a_turn_that_failed_is_failed(bench: Bench) -> None:
    failed = '{"type":"turn.failed","error":{"message":"stream disconnected"}}'
    result = bench.run("codex", (("write", "a", "a"), ("print", failed)), validateCommand="true")
    assert result.status is Status.FAILED
    assert "turn_failed" in codes(result)
    assert result.tests_attempted == ("true => exit 0",)


def test_an_agent_over_its_time_is_ended_and_its_work_is_kept_and_listed(bench: Bench) -> None:
    result = bench.run("grok", (("write", "half.txt", "half\n"), ("hang",)), limit_s=1.5)
    assert result.status is Status.TIMED_OUT
    assert result.changed_files == ("half.txt",)
    assert (Path(result.worktreePath) / "half.txt").exists()
    assert len(bench.calls("grok")) == 1
    assert not psutil.pid_exists(int((bench.bin / "hanging.pid").read_text()))


def test_an_agent_that_a_signal_ends_has_failed(bench: Bench) -> None:
    result = bench.run("claude", (("die", "SIGKILL"),))
    assert (result.status, result.exitCode, result.attempts) == (Status.FAILED, 137, 2)


def test_what_an_agent_leaves_running_is_gone_after_a_normal_end(bench: Bench) -> None:
    result = bench.run("claude", (*GOOD[:1], ("leave behind",), *GOOD[1:]))
    assert result.status is Status.COMPLETED
    assert not psutil.pid_exists(int((bench.bin / "left-behind.pid").read_text()))


def test_a_brief_of_4_mib_reaches_codex_on_stdin(bench: Bench) -> None:
    task = "brief \u00e9 " * (4 * 1024 * 1024 // 9)
    bench.run("codex", GOOD, task=task)
    assert bench.calls("codex")[0]["prompt"] == task


@pytest.mark.parametrize("agent", ["claude", "gemini", "grok"])
def test_a_task_of_28000_bytes_is_an_argument_and_one_byte_more_is_refused(
    bench: Bench, agent: str
) -> None:
    fits = "\u00e9" * 14_000
    assert bench.run(agent, GOOD, task=fits).status is Status.COMPLETED
    assert bench.calls(agent)[0]["prompt"] == fits
    refused = bench.run(agent, GOOD, task=fits + "x")
    assert refused.status is Status.FAILED
    assert "28001 bytes" in refused.summary
    assert (refused.worktreePath, len(bench.calls(agent))) == ("", 1)


def test_raw_output_is_kept_and_odd_bytes_do_no_harm(bench: Bench) -> None:
    steps = (("raw", b"caf\xe9 \xf0\x9f\x98\n".hex()), ("err", "a note"), *GOOD)
    result = bench.run("claude", steps)
    kept = bench.runtime_dir(result.jobId) / "attempt-1.stdout"
    assert b"caf\xe9 \xf0\x9f\x98\n" in kept.read_bytes()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert (bench.runtime_dir(result.jobId) / "attempt-1.stderr").read_bytes() == b"a note\n"
    assert stat.S_IMODE(bench.runtime_dir(result.jobId).stat().st_mode) == 0o700


def test_of_endless_output_the_last_megabyte_is_kept(bench: Bench) -> None:
    result = bench.run("claude", (("flood", "x", 40_000_000), *GOOD))
    assert result.status is Status.COMPLETED
    assert result.summary == "I wrote src/new.py."
    kept = bench.runtime_dir(result.jobId) / "attempt-1.stdout"
    assert kept.stat().st_size == 1024 * 1024


def test_a_summary_is_inert_and_bounded(bench: Bench) -> None:
    steps = (("say", "\x1b]0;t\x07\u202e" + "w" * 20_000 + " end"), ("end",))
    result = bench.run("codex", steps)
    assert len(result.summary) <= 8_000
    assert result.summary.endswith(" end")
    assert "\x1b" not in result.summary
    assert "\u202e" not in result.summary


def test_the_staged_prompt_is_gone_and_no_prompt_stands_in_the_result(bench: Bench) -> None:
    result = bench.run("codex", BAD, task="the secret brief")
    assert "secret brief" not in result.to_json()
    assert not (bench.runtime_dir(result.jobId) / "prompt").exists()


def test_the_owner_can_remove_the_worktree_afterwards(bench: Bench) -> None:
    result = bench.run("claude", (("say", "Nothing."), ("end",)))
    git(bench.repo, "worktree", "remove", result.worktreePath)
    assert not os.path.exists(result.worktreePath)


def test_without_a_validator_the_run_says_that_nothing_was_validated(bench: Bench) -> None:
    result = bench.run("claude")
    assert result.status is Status.COMPLETED
    assert result.validation.source is ValidationSource.NONE
    assert "validation_skipped" in codes(result)
    assert result.needs_human_review
