"""The host's own validation inside whole runs."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from contracts.run_agent import CommandState, RunAgentResult, Status, ValidationSource
from tests.support.agents.bench import GOOD, Bench, codes, make_repository


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def state(result: RunAgentResult) -> CommandState:
    (command,) = result.validation.commands
    return command.state


@pytest.mark.parametrize(
    ("command", "found", "line"),
    [
        ("true", CommandState.PASSED, "true => exit 0"),
        ("exit 4", CommandState.FAILED, "exit 4 => exit 4"),
        ("no-such-tool-here", CommandState.NOT_RUN, "no-such-tool-here => exit 127"),
        ("./README.md", CommandState.NOT_RUN, "./README.md => exit 126"),
        ("kill -TERM $$", CommandState.FAILED, "kill -TERM $$ => exit 143"),
    ],
)
def test_the_four_states_are_never_mixed_up(
    bench: Bench, command: str, found: CommandState, line: str
) -> None:
    result = bench.run("claude", GOOD, validateCommand=command)
    assert state(result) is found
    assert result.tests_attempted == (line,)
    passed = found is CommandState.PASSED
    assert result.status is (Status.COMPLETED if passed else Status.FAILED)
    assert result.needs_human_review is not passed


def test_a_validator_that_hangs_is_ended_with_its_children(bench: Bench) -> None:
    command = f"sleep 600 & echo $! > {bench.folder}/child; sleep 600"
    result = bench.run("claude", GOOD, validateCommand=command, ports={"validation_timeout_s": 1.5})
    assert state(result) is CommandState.TIMED_OUT
    assert result.tests_attempted[0].endswith("=> timed out after 2 s")
    assert result.status is Status.FAILED
    assert not psutil.pid_exists(int((bench.folder / "child").read_text()))


def test_a_validator_that_prints_without_end_costs_no_memory(bench: Bench) -> None:
    before = psutil.Process().memory_info().rss
    result = bench.run("claude", GOOD, validateCommand="head -c 300000000 /dev/zero")
    assert state(result) is CommandState.PASSED
    assert psutil.Process().memory_info().rss - before < 100_000_000


def test_a_failure_inside_a_pipe_counts(bench: Bench) -> None:
    result = bench.run("claude", GOOD, validateCommand="false | cat")
    assert state(result) is CommandState.FAILED


def test_without_bash_the_command_runs_under_sh_and_a_pipe_is_doubted(
    bench: Bench, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "git", "mkdir"):
        source = next(Path(d) / name for d in ("/bin", "/usr/bin") if (Path(d) / name).exists())
        (tools / name).symlink_to(source)
    bench.environment["PATH"] = f"{bench.bin}{os.pathsep}{tools}"
    result = bench.run("claude", GOOD, validateCommand="false | cat")
    assert state(result) is CommandState.PASSED
    assert "validation_masked" in codes(result)
    assert result.needs_human_review


def test_a_command_that_hides_its_exit_code_is_doubted(bench: Bench) -> None:
    result = bench.run("claude", GOOD, validateCommand="false || true")
    assert result.status is Status.COMPLETED
    assert "validation_masked" in codes(result)
    assert result.needs_human_review


def test_what_the_validator_writes_is_listed_apart(bench: Bench) -> None:
    result = bench.run("claude", GOOD, validateCommand="mkdir bin && echo x > bin/out.o")
    assert result.agent_changed_files == ("src/new.py",)
    assert result.validator_changed_files == ("bin/out.o",)
    assert result.changed_files == ("bin/out.o", "src/new.py")


def test_a_validator_s_files_are_not_the_work_of_an_idle_agent(bench: Bench) -> None:
    idle = (("say", "Done, all tests pass."), ("end",))
    result = bench.run("claude", idle, validateCommand="echo x > cache.bin")
    assert result.status is Status.COMPLETED
    assert result.agent_changed_files == ()
    assert "no_changes" in codes(result)
    assert result.needs_human_review


def test_a_validator_that_undoes_the_work_is_noticed(bench: Bench) -> None:
    result = bench.run("claude", GOOD, validateCommand="rm -r src")
    assert "change_undone" in codes(result)
    assert result.needs_human_review


def test_the_validator_has_the_environment_of_the_agent_and_stands_in_the_worktree(
    bench: Bench,
) -> None:
    bench.environment |= {"GIT_DIR": "/elsewhere", "CLAUDECODE": "1"}
    command = 'test "$TOKENROI_CONTEXT" = fleet-dispatch && test -z "$GIT_DIR$CLAUDECODE" && pwd'
    result = bench.run("claude", GOOD, validateCommand=f"{command} > where")
    assert result.status is Status.COMPLETED
    assert (Path(result.worktreePath) / "where").read_text().strip() == result.worktreePath


def fake_dotnet(bench: Bench, text: str) -> None:
    program = bench.bin / "dotnet"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_one_solution_is_built_and_tested_by_name(bench: Bench, tmp_path: Path) -> None:
    fake_dotnet(bench, f'echo "$@" >> {tmp_path}/said')
    repo = make_repository(tmp_path / "net", {"My App.sln": "", "a.csproj": ""})
    result = bench.run("claude", GOOD, repo=str(repo))
    assert result.validation.source is ValidationSource.AUTODETECTED
    assert (tmp_path / "said").read_text() == "build My App.sln\ntest My App.sln\n"
    assert [line.rpartition(" => ")[2] for line in result.tests_attempted] == ["exit 0", "exit 0"]
    assert result.needs_human_review is False


def test_a_build_that_fails_is_not_followed_by_tests(bench: Bench, tmp_path: Path) -> None:
    fake_dotnet(bench, 'test "$1" = test')
    repo = make_repository(tmp_path / "net", {"a.csproj": ""})
    result = bench.run("claude", GOOD, repo=str(repo))
    assert result.status is Status.FAILED
    assert result.tests_attempted == ("dotnet build a.csproj => exit 1",)
    assert [c.state for c in result.validation.commands] == [
        CommandState.FAILED,
        CommandState.NOT_RUN,
    ]


def test_a_detected_tool_that_is_missing_is_a_skip_and_said(bench: Bench, tmp_path: Path) -> None:
    bench.environment["PATH"] = f"{bench.bin}{os.pathsep}/usr/bin{os.pathsep}/bin"
    repo = make_repository(tmp_path / "net", {"a.csproj": ""})
    result = bench.run("claude", GOOD, repo=str(repo))
    assert result.status is Status.COMPLETED
    assert "validation_skipped" in codes(result)
    assert "=> not started: " in result.tests_attempted[0]
    assert result.needs_human_review


def test_a_link_or_a_folder_named_like_a_project_is_none(bench: Bench, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "net", {"x.sln/inner": ""})
    (repo / "y.csproj").symlink_to("/etc/hostname")
    result = bench.run("claude", GOOD, repo=str(repo))
    assert result.validation.source is ValidationSource.NONE


def test_what_the_validation_printed_is_kept_on_this_host_for_its_owner_alone(
    bench: Bench,
) -> None:
    command = "echo 2 failed, 1 passed; echo trace >&2; false"
    result = bench.run("claude", GOOD, validateCommand=command)
    assert state(result) is CommandState.FAILED
    folder = bench.runtime_dir(result.jobId)
    assert (folder / "validation-1.stdout").read_text() == "2 failed, 1 passed\n"
    assert (folder / "validation-1.stderr").read_text() == "trace\n"
    assert (folder / "validation-1.stdout").stat().st_mode & 0o777 == 0o600


def test_validation_output_that_cannot_be_kept_is_a_risk_and_no_more(bench: Bench) -> None:
    order = bench.order("claude")
    (bench.runtime_dir(order.job_id) / "validation-1.stdout").mkdir(parents=True)
    result = bench.run("claude", GOOD, job_id=order.job_id, validateCommand="true")
    assert result.status is Status.COMPLETED
    assert "tails_not_kept" in codes(result)
