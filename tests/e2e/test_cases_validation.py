"""Validation where other people's systems were fooled: files of the validator, an idle agent,
failures that a shell hides, tools that are missing, a validator without end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from contracts.run_agent import CommandState, Status
from tests.support.agents.bench import GOOD, Bench
from tests.support.desk import Desk

CACHE_FILES = 1_318
# A validator as a project has it: writes its caches and passes.
WRITES_CACHES = f"mkdir .cache && cd .cache && seq {CACHE_FILES} | xargs touch"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.agent("Path('new.py').write_text('x = 1\\n')\nfinish('I wrote new.py.')")
    return desk


def test_the_files_of_the_validator_are_listed_apart_from_the_agents(desk: Desk) -> None:
    done = desk.run("--validate-cmd", WRITES_CACHES)
    assert done.result["agent_changed_files"] == ["new.py"]
    assert len(done.result["validator_changed_files"]) == CACHE_FILES
    assert "new.py" not in done.result["validator_changed_files"]
    assert len(done.result["changed_files"]) == done.result["changed_files_total"]
    assert done.result["changed_files_total"] == CACHE_FILES + 1
    assert done.result["needs_human_review"] is False


def test_files_of_the_validator_never_stand_for_the_work_of_an_idle_agent(desk: Desk) -> None:
    control = desk.run("--validate-cmd", "mkdir -p obj && : > obj/out")
    assert control.result["needs_human_review"] is False

    desk.agent("say('I did all of it and all tests pass.')\nfinish('Done.')")
    done = desk.run("--validate-cmd", "mkdir -p obj && : > obj/out")

    assert done.result["changed_files"] == ["obj/out"]
    assert done.result["agent_changed_files"] == []
    assert "no_changes" in done.codes
    assert done.result["status"] == "completed"
    assert done.result["needs_human_review"] is True


def test_a_failure_in_front_of_a_pipe_counts(desk: Desk) -> None:
    command = "false | tail -1"
    plain = subprocess.run(["sh", "-c", command], check=False)
    assert plain.returncode == 0, "the control: a plain shell hides it"
    done = desk.run("--validate-cmd", command)
    assert (done.code, done.result["status"]) == (4, "failed")
    assert done.result["tests_attempted"] == [f"{command} => exit 1"]


@pytest.mark.parametrize("command", ["false || true", "false; true", "! true || :"])
def test_a_command_that_masks_its_exit_code_is_never_a_clean_pass(desk: Desk, command: str) -> None:
    done = desk.run("--validate-cmd", command)
    assert done.result["tests_attempted"] == [f"{command} => exit 0"]
    assert "validation_masked" in done.codes
    assert done.result["needs_human_review"] is True


@pytest.mark.parametrize(
    ("command", "exit_code", "state", "status"),
    [
        ("true", 0, "passed", "completed"),
        ("exit 3", 3, "failed", "failed"),
        ("no-such-tool --all", 127, "not_run", "failed"),
        ("./README.md", 126, "not_run", "failed"),
    ],
)
def test_what_passed_failed_and_never_ran_are_told_apart(
    desk: Desk, command: str, exit_code: int, state: str, status: str
) -> None:
    done = desk.run("--validate-cmd", command)
    (checked,) = done.result["validation"]["commands"]
    assert (checked["exit"], checked["state"]) == (exit_code, state)
    assert done.result["validation"]["ran"] is (state != "not_run")
    assert done.result["tests_attempted"] == [f"{command} => exit {exit_code}"]
    assert (done.result["status"], done.code) == (status, 0 if status == "completed" else 4)
    assert done.result["needs_human_review"] is (status != "completed")


def test_a_validator_that_hangs_is_the_fourth_state_and_its_whole_tree_ends(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    deaf = (
        "trap '' TERM; sleep 600 & echo $! > {0}/deaf; setsid sleep 600 & echo $! > {0}/away; wait"
    )
    result = bench.run(
        "claude",
        GOOD,
        validateCommand=deaf.format(tmp_path),
        ports={"validation_timeout_s": 1.0},
    )
    (checked,) = result.validation.commands
    assert (result.status, checked.state) == (Status.FAILED, CommandState.TIMED_OUT)
    assert checked.exit is None
    assert result.tests_attempted[0].endswith(" => timed out after 1 s")
    assert checked.seconds < 30
    for name in ("deaf", "away"):
        assert not psutil.pid_exists(int((tmp_path / name).read_text()))


def test_a_validator_that_prints_two_gigabytes_costs_no_memory(desk: Desk) -> None:
    done = desk.run("--validate-cmd", "head -c 2000000000 /dev/zero", seconds=170)
    assert (done.code, done.result["status"]) == (0, "completed")
    assert done.peak_bytes < 200_000_000
    assert len(done.stdout) < 10_000
