from __future__ import annotations

import io
import unicodedata

from contracts.clock import ManualClock
from contracts.run_agent import RunAgentResult, Status
from worker.runs.terminal import Progress, next_steps


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(5, "the terminal is gone")


class StillClock(ManualClock):
    """A clock that moves only by hand, and whose waits last until the event."""

    def wait(self, event: object, seconds: float) -> bool:
        return bool(event.wait(20))  # type: ignore[attr-defined]


def result(**changes: object) -> RunAgentResult:
    values: dict[str, object] = {
        "status": Status.COMPLETED,
        "summary": "Done.\nReally.",
        "changed_files": (),
        "tests_attempted": (),
        "known_risks": (),
        "needs_human_review": False,
        "agent": "codex",
        "durationSeconds": 1.0,
        "worktreePath": "",
    }
    return RunAgentResult.model_validate({**values, **changes})


def test_the_line_shows_time_phase_and_the_agent_s_last_words() -> None:
    stream, clock = io.StringIO(), StillClock()
    progress = Progress(stream, clock)
    progress.start()
    progress.agent_line("Reading \x1b[31mparser.py\x1b[0m\nnow")
    clock.advance(75)
    progress.phase("agent")
    progress.stop()
    assert "\r\x1b[2K00:00 starting" in stream.getvalue()
    assert "\r\x1b[2K01:15 agent: Reading parser.py now" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_a_line_never_grows_beyond_the_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(stream, StillClock())
    progress.agent_line("w" * 1_000)
    progress.phase("agent")
    assert max(len(line) for line in stream.getvalue().split("\x1b[2K")) <= 80


def test_a_line_of_wide_characters_never_wraps() -> None:
    stream = io.StringIO()
    progress = Progress(stream, StillClock())
    progress.agent_line("\u6f22\u5b57" * 200)
    progress.phase("agent")
    line = stream.getvalue().split("\x1b[2K")[-1]
    cells = [2 if unicodedata.east_asian_width(character) == "W" else 1 for character in line]
    assert 60 < sum(cells) <= 80


def test_no_git_command_is_advised_in_a_tree_whose_git_may_start_what_the_agent_planted() -> None:
    made = result(
        worktreePath="/r-agents/j",
        branch="wt/j/T-1",
        known_risks=("settings changed",),
        risks=({"code": "tampered", "message": "settings changed"},),
    )
    shown = next_steps(made, "/r")
    assert "git -C" not in shown
    assert "/r-agents/j" in shown
    assert "settings changed" in shown


def test_a_terminal_that_goes_away_does_no_harm() -> None:
    progress = Progress(Broken(), StillClock())
    progress.start()
    progress.phase("agent")
    progress.stop()


def test_without_a_worktree_there_is_nothing_to_review() -> None:
    assert next_steps(result(), "/r") == "completed: Done. Really."


def test_awkward_paths_are_quoted_for_a_shell() -> None:
    made = result(
        worktreePath="/my repos/$x-agents/j",
        branch="wt/j/T-1",
        baseCommit="0" * 40,
        known_risks=("look\x1b[2J twice",),
    )
    shown = next_steps(made, "/my repos/$x")
    assert "'/my repos/$x-agents/j'" in shown
    assert "risk:   look twice" in shown
    assert "\x1b" not in shown


def work(**changes: object) -> RunAgentResult:
    place = {"worktreePath": "/r-agents/j", "branch": "wt/j/T-1", "baseCommit": "0" * 40}
    return result(**{**place, **changes})


def test_a_completed_run_that_needs_eyes_says_so_first() -> None:
    assert next_steps(work(needs_human_review=True), "/r").startswith("completed (needs review): ")


def test_dropping_the_work_drops_its_branch_too() -> None:
    last = next_steps(work(), "/r").splitlines()[-1]
    assert last.endswith("worktree remove --force /r-agents/j && git -C /r branch -D wt/j/T-1")


def test_without_changes_there_is_only_something_to_drop() -> None:
    shown = next_steps(work(risks=({"code": "no_changes", "message": "no changes"},)), "/r")
    assert [line.split(":")[0] for line in shown.splitlines()] == ["completed", "drop"]


def test_a_failed_check_is_shown_as_a_command_to_run_again() -> None:
    ran = {"command": "make test", "exit": 2, "seconds": 1.0, "state": "failed"}
    made = work(validation={"ran": True, "source": "validateCommand", "commands": [ran]})
    assert "again:  cd /r-agents/j && make test" in next_steps(made, "/r").splitlines()


def test_files_that_the_validation_wrote_are_named_before_they_are_added() -> None:
    shown = next_steps(work(validator_changed_files=("a.pyc", "b\x1b[2J.pyc")), "/r")
    assert "add -A takes them in: a.pyc, b.pyc" in shown
    assert "\x1b" not in shown
