"""Processes and output where other people's systems hung, leaked or lost: whole runs, real trees of
processes. Each control shows that the same program does do the harm when nobody owns the tree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from contracts.run_agent import RunAgentResult, Status
from runagent.host import run_agent
from tests.support.agents.bench import GOOD, Bench, codes, plan
from tests.support.desk import Desk
from tests.support.fleet import place_program, wait_until

GRACE_S = 5.0  # between TERM and KILL
SLACK_S = 8.0  # two cores, many tests
MEMORY_MAX = 200_000_000

# Writes its pid where the test looks, then stays for ten minutes.
STAY = "open({0!r}, 'w').write(str(os.getpid())); time.sleep(600)"


class Stayer:
    """A program that a run leaves behind, known by the pid that it wrote."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.pid"

    @property
    def pid(self) -> int:
        return int(self.file.read_text())

    @property
    def is_there(self) -> bool:
        return self.file.exists() and bool(self.file.read_text())

    @property
    def runs(self) -> bool:
        return psutil.pid_exists(self.pid)

    def spawned(self, before: str = "pass") -> str:
        """Return code that starts it in the background, `before` as its first deed, and waits
        until it is there."""
        inner = f"import os, signal, sys, time; {before}; {STAY.format(str(self.file))}"
        return (
            f"subprocess.Popen([sys.executable, '-I', '-c', {inner!r}])\n"
            f"while not Path({str(self.file)!r}).exists(): time.sleep(0.01)\n"
        )


@pytest.fixture
def stayer(tmp_path: Path) -> Iterator[Stayer]:
    stayer = Stayer(tmp_path, "stayer")
    yield stayer
    if stayer.is_there and stayer.runs:
        os.kill(stayer.pid, signal.SIGKILL)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def run_script(bench: Bench, text: str, *, limit_s: float = 60.0) -> RunAgentResult:
    """Let the host run an agent that is `text`, for `limit_s` seconds at most."""
    preamble = "import os, signal, subprocess, sys, time\nfrom pathlib import Path\n"
    place_program(bench.bin, "claude", preamble + text)
    order = bench.order("claude", limit_s=limit_s)
    return run_agent(order, bench.ports(order.job_id))


DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


# --- the deadline ------------------------------------------------------------------------------
@pytest.mark.parametrize("before", ["pass", DEAF, f"os.setsid(); {DEAF}"])
def test_a_child_that_holds_the_pipes_cannot_hold_the_run_beyond_its_deadline(
    bench: Bench, stayer: Stayer, before: str
) -> None:
    began = time.monotonic()
    result = run_script(bench, stayer.spawned(before) + "time.sleep(600)", limit_s=1.5)
    assert result.status is Status.TIMED_OUT
    assert time.monotonic() - began < 1.5 + GRACE_S + SLACK_S
    assert not stayer.runs


def test_control_a_runner_that_kills_the_leader_alone_waits_for_the_child(
    tmp_path: Path, stayer: Stayer
) -> None:
    agent = place_program(
        tmp_path,
        "agent",
        "import os, subprocess, sys, time\nfrom pathlib import Path\n"
        + stayer.spawned()
        + "time.sleep(600)",
    )
    with subprocess.Popen([agent], stdout=subprocess.PIPE) as process:
        try:
            wait_until(lambda: stayer.is_there, "the child")
        finally:
            process.kill()
        process.wait(10)
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=2.0)
        assert stayer.runs
        os.kill(stayer.pid, signal.SIGKILL)


def test_a_leader_that_goes_on_term_does_not_save_a_grandchild_that_ignores_it(
    bench: Bench, stayer: Stayer
) -> None:
    polite = "signal.signal(signal.SIGTERM, lambda *_: os._exit(0))\n"
    result = run_script(bench, polite + stayer.spawned(DEAF) + "time.sleep(600)", limit_s=1.5)
    assert result.status is Status.TIMED_OUT, "its exit 0 on our TERM is no success"
    assert not stayer.runs


def test_a_run_over_its_time_keeps_its_tree_and_lists_what_was_done(bench: Bench) -> None:
    steps = (
        ("write", "src/half.py", "x = 1\n"),
        ("commit", "half"),
        ("write", "b", "b"),
        ("hang",),
    )
    result = bench.run("claude", steps, limit_s=3.0, validateCommand="touch ran")
    assert result.status is Status.TIMED_OUT
    assert result.changed_files == ("b", "src/half.py")
    assert (Path(result.worktreePath) / "src/half.py").read_text() == "x = 1\n"
    assert len(bench.calls("claude")) == 1, "it is not tried again"
    assert (result.tests_attempted, result.needs_human_review) == ((), True)
    assert not (Path(result.worktreePath) / "ran").exists()


# --- after a normal end ------------------------------------------------------------------------
SERVER = (
    "import http.server as h; os.setsid(); "
    "server = h.HTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler)"
)


def test_a_server_that_an_agent_left_in_a_session_of_its_own_is_gone_after_the_run(
    desk: Desk, stayer: Stayer
) -> None:
    desk.machine.sandbox = "none"  # the server tells its pid in a file beside the tree
    agent = desk.agent(
        "Path('new.py').write_text('x')\n" + stayer.spawned(SERVER) + "finish('It serves.')"
    )
    done = desk.run("--validate-cmd", "true")
    assert (done.code, done.result["status"]) == (0, "completed")
    assert not stayer.runs

    # The control: started by hand, it outlives the agent.
    stayer.file.unlink()
    subprocess.run(
        [sys.executable, "-I", agent], cwd=desk.folder, check=True, stdout=subprocess.DEVNULL
    )
    assert stayer.runs


@pytest.mark.slow
@pytest.mark.timeout(900)  # 45 s on two idle cores
def test_two_hundred_runs_leave_no_zombie(bench: Bench) -> None:
    plan(bench.bin, "claude", GOOD)
    parent = psutil.Process()

    def run(_number: int) -> Status:
        order = bench.order("claude")
        return run_agent(order, bench.ports(order.job_id)).status

    run(0)
    before = parent.num_fds()
    standing = {child.pid for child in parent.children(recursive=True)}  # servers of other tests
    with ThreadPoolExecutor(max_workers=4) as pool:
        statuses = list(pool.map(run, range(200)))
    assert set(statuses) == {Status.COMPLETED}
    left = [child for child in parent.children(recursive=True) if child.pid not in standing]
    assert left == []
    assert parent.num_fds() <= before + 2


# --- output ------------------------------------------------------------------------------------
def test_one_line_of_five_hundred_megabytes_costs_no_memory_and_its_end_is_kept(desk: Desk) -> None:
    desk.agent(
        "Path('new.py').write_text('x')\n"
        "for _ in range(500): sys.stdout.write('x' * 1_000_000)\n"
        "print()\nfinish('I wrote new.py.')"
    )
    done = desk.run("--validate-cmd", "true", seconds=170)
    assert (done.code, done.result["summary"]) == (0, "I wrote new.py.")
    assert done.peak_bytes < MEMORY_MAX
    kept = desk.raw_output(done)
    assert len(kept) == 1024 * 1024
    assert b"I wrote new.py." in kept[-500:]


def test_a_character_cut_between_two_writes_is_whole_and_bad_bytes_are_replaced(desk: Desk) -> None:
    text = "grün 中 \U0001f600 caf"
    desk.agent(
        f"content = [dict(type='text', text={text!r} + '~')]\n"
        "event = dict(type='assistant', message=dict(role='assistant', content=content))\n"
        "line = json.dumps(event, ensure_ascii=False).encode().replace(b'~', b'\\xe9') + b'\\n'\n"
        "for byte in line: os.write(1, bytes([byte])); time.sleep(0.001)\n"
        "os.write(2, b'\\xff\\xfe')\n"
        "Path('new.py').write_text('x')\nfinish('')"
    )
    done = desk.run("--validate-cmd", "true")
    assert (done.code, done.result["summary"]) == (0, text + "\N{REPLACEMENT CHARACTER}")
    assert text.encode() + b"\xe9" in desk.raw_output(done)


# --- the prompt --------------------------------------------------------------------------------
def test_a_prompt_too_long_for_an_argument_is_refused_and_reaches_codex_whole(desk: Desk) -> None:
    task = desk.folder / "task.txt"
    task.write_text("é" * 100_000)  # 200 000 bytes; one argument may have 131 072
    with pytest.raises(OSError, match="Argument list too long"):
        subprocess.run(["true", task.read_text()], check=False)  # the control

    refused = desk.run("--task-file", str(task))
    assert (refused.code, refused.result["status"]) == (2, "failed")
    assert "200000 bytes" in refused.result["summary"]
    assert "codex" in refused.result["summary"], "the remedy names who takes it"

    desk.agent("Path('got').write_bytes(sys.stdin.buffer.read())", name="codex")
    taken = desk.run("--task-file", str(task), agent="codex")
    assert (desk.tree(taken) / "got").read_bytes() == task.read_bytes()


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_prompt_with_a_nul_is_refused(desk: Desk, agent: str) -> None:
    task = desk.folder / "task.txt"
    task.write_bytes(b"do\0it")
    done = desk.run("--task-file", str(task), agent=agent)
    assert done.code == 2
    assert "task" in done.result["summary"]
    assert "NUL" in done.result["summary"]


@pytest.mark.parametrize("agent", ["claude", "gemini", "grok", "codex"])
@pytest.mark.parametrize("task", ["--dangerously-skip-permissions", "-p", "--"])
def test_a_prompt_that_looks_like_an_option_is_a_prompt(
    bench: Bench, agent: str, task: str
) -> None:
    result = bench.run(agent, GOOD, task=task)
    (call,) = bench.calls(agent)
    assert call["prompt"] == task
    assert (result.status, "retried" in codes(result)) == (Status.COMPLETED, False)


# --- what is inherited -------------------------------------------------------------------------
def test_the_marks_of_an_outer_agent_reach_neither_agent_nor_validator(desk: Desk) -> None:
    outer = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SESSION_ID": "outer",
        "CLAUDE_CODE_MESSAGING_SOCKET": "/run/outer",
        "CLAUDE_CODE_MESSAGING_TOKEN": "outer",
        "CLAUDE_PID": "1",
        "AI_AGENT": "outer",
    }
    kept = {"CLAUDE_CONFIG_DIR": str(desk.folder / "logins")}
    desk.agent("Path('seen.json').write_text(json.dumps(dict(os.environ)))\nfinish()")
    done = desk.run("--validate-cmd", "env > validator.env", extra={**outer, **kept})
    seen = (desk.tree(done) / "seen.json").read_text()
    validators = (desk.tree(done) / "validator.env").read_text()
    for text in (seen, validators):
        assert not [name for name in outer if name in text]
        assert "TOKENROI_CONTEXT" in text
        assert "CLAUDE_CONFIG_DIR" in text, "the control: the agent's own place is inherited"
