"""The local verb as a person or a script meets it: a process, its output and its exit code."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from contracts.clock import SystemClock
from tests.support.agents.bench import GOOD, Bench, git, plan
from worker.journal.journal import Journal
from worker.journal.schema import JobState

PROJECT = Path(__file__).resolve().parents[2]
VERB = (sys.executable, "-c", "from worker.commands.run_agent import command; command()")
NINE = [
    "status",
    "summary",
    "changed_files",
    "tests_attempted",
    "known_risks",
    "needs_human_review",
    "agent",
    "durationSeconds",
    "worktreePath",
]


class Desk:
    """A person's machine: a repository, agents on PATH, an empty fleet home."""

    def __init__(self, folder: Path) -> None:
        self.bench = Bench(folder)
        self.fleet = folder / "fleet"
        self.environment = {
            **self.bench.environment,
            "PYTHONPATH": str(PROJECT),
            "FLEET_DISPATCH_HOME": str(self.fleet),
            "FLEET_DISPATCH_SANDBOX": "none",  # the fakes write down their calls beside the tree
        }

    def options(self, agent: str = "claude", **more: str) -> list[str]:
        """Return the options of a sound run."""
        given = {"agent": agent, "task": "Do it.", "repo": str(self.bench.repo), "ticket": "T-1"}
        pairs = {**given, **more}
        return [word for name, value in pairs.items() for word in (f"--{name}", value)]

    def run(self, *words: str, stdin: bytes = b"", cwd: Path | None = None) -> Done:
        """Run the verb to its end."""
        done = subprocess.run(
            [*VERB, *words],
            env=self.environment,
            cwd=cwd or self.bench.folder,
            input=stdin,
            capture_output=True,
            timeout=60,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run_in_shell(self, redirections: str, *words: str, before: str = "") -> Done:
        """Run the verb to its end from a shell, which can close its streams."""
        line = f"{before} exec {shlex.join([*VERB, *words])} {redirections}"
        done = subprocess.run(
            ["sh", "-c", line],
            env=self.environment,
            cwd=self.bench.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words: str, **given: Any) -> subprocess.Popen[bytes]:
        """Start the verb."""
        return subprocess.Popen(
            [*VERB, *words], env=self.environment, cwd=self.bench.folder, **given
        )

    def journal(self, job_id: str) -> list[JobState]:
        """Return the states that the journal has of a job."""
        with contextlib.closing(
            Journal(self.fleet / "state" / "journal.sqlite3", SystemClock())
        ) as book:
            return [row.state for row in book.history(job_id)]


class Done:
    """How a run of the verb ended. `result` is the whole of stdout, or the test fails."""

    def __init__(self, code: int, stdout: str, stderr: str) -> None:
        self.code, self.stdout, self.stderr = code, stdout, stderr

    @property
    def result(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.stdout)
        assert all(document[key] is not None for key in NINE)
        assert self.stdout.startswith("{\n  ")
        return document


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_run_prints_its_indented_result_and_nothing_else(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    done = desk.run(*desk.options(), "--validate-cmd", "test -f src/new.py", "--mode", "fix")
    assert (done.code, done.stderr) == (0, "")
    assert done.result["status"] == "completed"
    assert done.result["mode"] == "fix"
    assert done.result["needs_human_review"] is False


def test_a_run_needs_no_keys_and_writes_the_journal(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    job_id = desk.run(*desk.options()).result["jobId"]
    assert not (desk.fleet / "keys").exists()
    assert desk.journal(job_id) == [
        JobState.CLAIMED,
        JobState.STARTED,
        JobState.AGENT_DONE,
        JobState.VALIDATED,
        JobState.DONE,
    ]


def test_json_may_be_asked_for_and_changes_nothing(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    assert desk.run(*desk.options(), "--json").result["status"] == "completed"


def test_a_relative_repo_is_taken_from_where_the_person_stands(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    done = desk.run(*desk.options(repo="."), cwd=desk.bench.repo)
    assert done.result["worktreePath"].startswith(f"{desk.bench.repo}-agents/")


LIMITED = '{"type":"turn.failed","error":{"message":"429 Too Many Requests"}}'
DENIED = '{"type":"result","is_error":true,"permission_denials":[{"tool_name":"Bash"}]}'


@pytest.mark.parametrize(
    ("agent", "steps", "code", "status"),
    [
        ("claude", [("exit", 1)], 4, "failed"),
        ("codex", [("print", LIMITED), ("exit", 1)], 5, "rate_limited"),
        ("claude", [("print", DENIED), ("exit", 1)], 6, "approval_required"),
    ],
)
def test_the_exit_code_follows_the_status(
    desk: Desk, agent: str, steps: list[tuple[Any, ...]], code: int, status: str
) -> None:
    plan(desk.bench.bin, agent, steps)
    done = desk.run(*desk.options(agent))
    assert (done.code, done.result["status"]) == (code, status)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--agent", "nobody"], "agent"),
        (["--ticket", "a/b"], "ticket"),
        (["--branch", "--orphan"], "branch"),
        (["--branch", "nowhere"], "nowhere"),
        (["--repo", "/nonexistent"], "/nonexistent"),
        (["--task", ""], "task"),
        (["--task-file", "task.txt"], "task"),
        (["--timeout", "soon"], "soon"),
        (["--tsk", "x"], "--tsk"),
        (["stray"], "stray"),
    ],
)
def test_what_is_refused_is_a_result_too_with_exit_2_and_nothing_left(
    desk: Desk, words: list[str], named: str
) -> None:
    done = desk.run(*desk.options(), *words)
    assert done.code == 2
    assert done.result["status"] == "failed"
    assert named in done.result["summary"]
    assert desk.bench.calls("claude") == []
    assert desk.bench.is_untouched()


def test_a_run_without_any_option_names_all_that_is_missing(desk: Desk) -> None:
    done = desk.run()
    assert done.code == 2
    assert all(name in done.result["summary"] for name in ("agent", "task", "repo", "ticket"))


def test_a_broken_setting_is_a_result_that_names_it(desk: Desk) -> None:
    desk.fleet.mkdir(mode=0o700)
    (desk.fleet / "config.toml").write_text("[validation]\ntimeot_s = 5\n")
    (desk.fleet / "config.toml").chmod(0o600)
    done = desk.run(*desk.options())
    assert done.code == 2
    assert "timeot_s" in done.result["summary"]


def test_the_task_may_stand_in_a_file_or_come_from_stdin(desk: Desk) -> None:
    plan(desk.bench.bin, "codex", GOOD)
    task = "Zeile eins\n-- zwei \u20ac\n"
    (desk.bench.folder / "task.txt").write_text(task, encoding="utf-8")
    words = [word for word in desk.options("codex") if word not in ("--task", "Do it.")]
    assert desk.run(*words, "--task-file", "task.txt").code == 0
    assert desk.run(*words, "--task-file", "-", stdin=task.encode()).code == 0
    assert [call["prompt"] for call in desk.bench.calls("codex")] == [task, task]


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_task_file_that_cannot_be_read_is_refused(desk: Desk, content: bytes | None) -> None:
    if content is not None:
        (desk.bench.folder / "task.txt").write_bytes(content)
    words = [word for word in desk.options("codex") if word not in ("--task", "Do it.")]
    done = desk.run(*words, "--task-file", "task.txt")
    assert done.code == 2
    assert "task" in done.result["summary"]


def test_a_run_started_from_a_git_hook_leaves_that_repository_alone(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    other = desk.bench.folder / "other"
    other.mkdir()
    git(other, "init", "-q")
    desk.environment |= {"GIT_DIR": str(other / ".git"), "GIT_INDEX_FILE": str(other / "index")}
    assert desk.run(*desk.options()).result["changed_files"] == ["src/new.py"]
    assert not (other / "index").exists()
    assert git(desk.bench.repo, "worktree", "list").count("\n") == 2


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "2>&- <&-"])
def test_closed_standard_streams_cost_no_result(desk: Desk, closed: str) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    done = desk.run_in_shell(closed, *desk.options())
    assert done.code == 0
    assert done.result["changed_files"] == ["src/new.py"]


def test_a_closed_stdout_still_ends_with_the_exit_code_of_the_run(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    for closed in (">&-", ">&- 2>&- <&-"):
        done = desk.run_in_shell(closed, *desk.options())
        assert (done.code, done.stdout, done.stderr) == (0, "", "")
        assert desk.run_in_shell(closed, *desk.options(), "--ticket", "a/b").code == 2
        assert desk.run_in_shell(closed, "--nonsense").code == 2


def test_a_task_from_a_closed_stdin_is_an_empty_task(desk: Desk) -> None:
    words = [word for word in desk.options() if word not in ("--task", "Do it.")]
    done = desk.run_in_shell("<&-", *words, "--task-file", "-")
    assert done.code == 2
    assert "task" in done.result["summary"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has /dev/full")
def test_a_result_that_cannot_be_written_says_where_the_work_stands(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    done = desk.run_in_shell(">/dev/full", *desk.options())
    assert done.code == 4
    assert f"{desk.bench.repo}-agents/" in done.stderr
    assert "stdout" in done.stderr


def test_a_relative_repository_from_a_folder_that_is_gone_is_refused(desk: Desk) -> None:
    gone = desk.bench.folder / "gone"
    gone.mkdir()
    move = f"cd {gone} && rmdir {gone} &&"
    done = desk.run_in_shell("", *desk.options(repo="repo"), before=move)
    assert done.code == 2
    assert "repo" in done.result["summary"]
    plan(desk.bench.bin, "claude", GOOD)
    gone.mkdir()
    assert desk.run_in_shell("", *desk.options(), before=move).code == 0, "the control: absolute"


def test_a_result_is_utf8_whatever_the_locale(desk: Desk) -> None:
    plan(desk.bench.bin, "claude", [("say", "caf\u00e9 \u20ac"), *GOOD[:1], ("end",)])
    desk.environment |= {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    desk.environment |= {"PYTHONIOENCODING": "ascii"}
    done = desk.run(*desk.options())
    assert done.code == 0
    assert "caf\u00e9 \u20ac" in done.result["summary"]


def test_a_refused_run_leaves_its_log_of_events_and_nothing_else(desk: Desk) -> None:
    assert desk.run(*desk.options(branch="nowhere")).code == 2
    (folder,) = (desk.fleet / "state" / "runs").iterdir()
    assert [path.name for path in folder.iterdir()] == ["events.jsonl"]


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_agent_and_still_prints_a_result(
    desk: Desk, number: signal.Signals
) -> None:
    plan(desk.bench.bin, "claude", [("write", "half.txt", "half"), ("hang",)])
    verb = desk.start(*desk.options(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(desk.bench.bin / "hanging.pid")
    verb.send_signal(number)
    out, err = verb.communicate(timeout=40)
    done = Done(verb.returncode, out.decode(), err.decode())
    assert (done.code, done.stderr) == (4, "")
    assert done.result["status"] == "failed"
    assert "interrupted" in {risk["code"] for risk in done.result["risks"]}
    assert done.result["changed_files"] == ["half.txt"]
    assert not psutil.pid_exists(int((desk.bench.bin / "hanging.pid").read_text()))
    assert desk.journal(done.result["jobId"])[-1] is JobState.DONE


def test_on_a_terminal_a_person_sees_what_goes_on_and_what_to_do_next(desk: Desk) -> None:
    evil = "\x1b]0;owned\x07\x1b[2JAlmost there\u202e"
    plan(desk.bench.bin, "claude", [("say", evil), *GOOD])
    ours, theirs = pty.openpty()
    with desk.start(*desk.options(), stdout=subprocess.PIPE, stderr=theirs) as verb:
        os.close(theirs)
        out, _ = verb.communicate(timeout=40)
    assert verb.returncode == 0
    shown = drain(ours)
    tree, repo = json.loads(out)["worktreePath"], desk.bench.repo
    assert "\r\x1b[2K00:0" in shown
    assert "agent" in shown
    assert "owned" not in shown
    assert "\u202e" not in shown
    assert "\x1b[2J" not in shown
    assert f"review: git -C {tree} add -A && git -C {tree} diff --cached" in shown
    assert f"git -C {repo} merge wt/" in shown


def test_a_person_sees_where_the_work_is_though_nobody_reads_the_result_any_more(
    desk: Desk,
) -> None:
    plan(desk.bench.bin, "claude", GOOD)
    ours, theirs = pty.openpty()
    unread, stdout = os.pipe()
    os.close(unread)
    with desk.start(*desk.options(), stdout=stdout, stderr=theirs) as verb:
        os.close(stdout)
        os.close(theirs)
        shown = drain(ours)
        assert verb.wait(40) == 4
    assert f"review: git -C {desk.bench.repo}-agents/" in shown


def test_the_lines_for_a_review_do_what_they_say(desk: Desk) -> None:
    from contracts.run_agent import RunAgentResult
    from worker.runs.terminal import next_steps

    plan(desk.bench.bin, "claude", GOOD)
    result = RunAgentResult.model_validate(desk.run(*desk.options()).result)
    lines = dict(
        line.split(":", 1) for line in next_steps(result, str(desk.bench.repo)).splitlines()
    )
    who = {"GIT_AUTHOR_NAME": "o", "GIT_AUTHOR_EMAIL": "o@o", "GIT_CONFIG_GLOBAL": os.devnull}
    who |= {"GIT_COMMITTER_NAME": "o", "GIT_COMMITTER_EMAIL": "o@o"}

    def shell(line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", line],
            env={**desk.bench.environment, **who},
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        return done.stdout

    assert "+x = 1" in shell(lines["review"])
    shell(lines["merge"])
    assert (desk.bench.repo / "src/new.py").exists()
    shell(lines["drop"])
    assert not Path(result.worktreePath).exists()
    assert "wt/" not in shell(f"git -C {desk.bench.repo} branch")


def drain(descriptor: int) -> str:
    """Return what was written to a terminal that nobody holds open any more."""
    data = b""
    with contextlib.suppress(OSError):  # Linux says EIO at the end
        while chunk := os.read(descriptor, 65_536):
            data += chunk
    os.close(descriptor)
    return data.decode()
