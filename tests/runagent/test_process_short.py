"""A short process of the host's own: no warden, yet a deadline, flat memory, no leftover."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.errors import Unavailable
from runagent import _short
from runagent._tree import stat_of
from runagent._walls import Walls
from runagent.process import EndState, ProcessSpec, run, system_runner
from tests.support.source_tree import PROJECT

pytestmark = pytest.mark.skipif(not _short.find_setpriv(), reason="this system has no setpriv")


def short(*argv: str, timeout_s: float = 20.0, **fields: object) -> ProcessSpec:
    return ProcessSpec(
        argv=argv,
        cwd="/",
        env={"PATH": os.defpath},
        timeout_s=timeout_s,
        grace_s=0.2,
        is_short=True,
        **fields,  # type: ignore[arg-type]
    )


def test_its_output_and_exit_code_are_told_and_its_parent_is_this_very_process() -> None:
    outcome = run(system_runner(), short("/bin/sh", "-c", "echo $PPID; echo e >&2; exit 3"))

    assert outcome.state is EndState.EXITED
    assert outcome.exit_code == 3
    assert outcome.stdout.split() == [str(os.getpid()).encode()]
    assert outcome.stderr == b"e\n"
    assert outcome.survivors == 0


def test_it_reads_megabytes_of_input_while_it_prints_as_many() -> None:
    data = os.urandom(5_000_000)

    outcome = run(system_runner(), short("cat", stdin=data, tail_bytes=len(data)))

    assert outcome.stdout == data
    assert outcome.stdout_total == len(data)


def test_only_the_last_bytes_are_kept_and_all_are_counted() -> None:
    outcome = run(
        system_runner(),
        short("/bin/sh", "-c", "head -c 9000000 /dev/zero; printf end", tail_bytes=1000),
    )

    assert outcome.stdout_total == 9_000_003
    assert len(outcome.stdout) == 1000
    assert outcome.stdout.endswith(b"end")


def test_input_that_nobody_reads_is_no_trouble() -> None:
    outcome = run(system_runner(), short("true", stdin=b"x" * 3_000_000))

    assert (outcome.state, outcome.exit_code) == (EndState.EXITED, 0)


def test_its_deadline_ends_it_and_its_group_even_when_it_refuses_a_term(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    text = f"trap '' TERM; sleep 60 & echo $$ $! > {pids}; sleep 60"

    outcome = run(system_runner(), short("/bin/sh", "-c", text, timeout_s=0.5))

    assert outcome.state is EndState.TIMED_OUT
    assert outcome.why == "ended after its 0.5 s"
    assert all(_is_gone(int(pid)) for pid in pids.read_text().split())


def test_what_it_leaves_in_its_group_is_ended_after_a_plain_exit(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    outcome = run(
        system_runner(),
        short("/bin/sh", "-c", f"sleep 60 >/dev/null 2>&1 & echo $! > {pids}; exit 0"),
    )

    assert (outcome.state, outcome.exit_code) == (EndState.EXITED, 0)
    assert _is_gone(int(pids.read_text()))


def test_a_pipe_that_a_stranger_holds_open_does_not_hold_us(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    text = f"setsid sh -c 'echo $$ > {pids}; exec sleep 60' & sleep 0.3; echo done"
    try:
        outcome = run(system_runner(), short("/bin/sh", "-c", text))
    finally:
        os.kill(int(pids.read_text()), signal.SIGKILL)

    assert outcome.state is EndState.EXITED
    assert outcome.stdout == b"done\n"


def test_an_abort_from_another_thread_ends_it_with_its_reason() -> None:
    running = system_runner().start(short("sleep", "60"))
    threading.Timer(0.1, running.abort, ("enough",)).start()

    outcome = running.wait()
    running.abort("too late")

    assert (outcome.state, outcome.why) == (EndState.ABORTED, "enough")
    assert running.wait() is outcome


@pytest.mark.parametrize("on_term", ["rm held; exit 1", ""])
def test_an_interruption_lets_it_take_its_lock_files_away_and_ends_it_anyway(
    tmp_path: Path, on_term: str
) -> None:
    text = f"trap '{on_term}' TERM; echo $$ > pid; touch held; while :; do sleep 0.1; done"
    spec = short("/bin/sh", "-c", text, timeout_s=60.0)
    grace_s = 30.0 if on_term else 0.2
    interrupter = threading.Thread(target=_interrupt_us_once, args=(tmp_path / "held",))
    interrupter.start()
    running = system_runner().start(replace(spec, cwd=str(tmp_path), grace_s=grace_s))

    with pytest.raises(KeyboardInterrupt):
        running.wait()

    interrupter.join()
    assert (tmp_path / "held").exists() is (on_term == "")
    assert _is_gone(int((tmp_path / "pid").read_text()))
    assert running.wait().state is EndState.ABORTED


def _interrupt_us_once(sign: Path) -> None:
    until = time.monotonic() + 30
    while not sign.exists() and time.monotonic() < until:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_its_input_cannot_be_written_to_later() -> None:
    running = system_runner().start(short("true"))
    running.close_stdin()
    try:
        with pytest.raises(Unavailable):
            running.write(b"x")
    finally:
        running.wait()


def test_it_dies_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    program = (
        f"import sys; sys.path.insert(0, {str(PROJECT)!r})\n"
        "from runagent.process import ProcessSpec, run, system_runner\n"
        f"text = 'echo $$ > {told}; exec sleep 60'\n"
        "run(system_runner(), ProcessSpec(argv=('/bin/sh', '-c', text), cwd='/', "
        "env={'PATH': '/usr/bin:/bin'}, timeout_s=60, is_short=True))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    until = time.monotonic() + 20
    while not (told.exists() and told.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.02)

    parent.kill()
    parent.wait()

    assert _is_gone(int(told.read_text()))


def test_a_program_that_cannot_be_run_is_told_as_not_started(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"#!/no/such/interpreter\n")
    broken.chmod(0o755)

    outcome = run(system_runner(), short(str(broken)))

    assert outcome.state is EndState.NOT_STARTED
    assert "broken" in outcome.why


def test_a_folder_that_is_not_there_is_told_as_a_warden_tells_it() -> None:
    spec = ProcessSpec(
        argv=("true",), cwd="/no/such", env={"PATH": os.defpath}, timeout_s=5, is_short=True
    )

    outcome = run(system_runner(), spec)

    assert outcome.state is EndState.NOT_STARTED
    assert "/no/such cannot be entered" in outcome.why


def test_where_setpriv_cannot_be_had_a_warden_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_short, "_SETPRIV", ("/no/such/setpriv", "/bin/false"))

    outcome = run(system_runner(), short("/bin/sh", "-c", "echo $PPID"))

    assert outcome.state is EndState.EXITED
    assert int(outcome.stdout) != os.getpid()


def test_one_that_is_to_be_walled_in_is_never_started_without_its_walls(tmp_path: Path) -> None:
    walls = Walls(writable=(str(tmp_path),))

    outcome = run(system_runner(), short("/bin/sh", "-c", "echo $PPID", walls=walls))

    assert outcome.stdout.strip() != str(os.getpid()).encode()


def _is_gone(pid: int) -> bool:
    until = time.monotonic() + 10
    while (stat := stat_of(pid)) is not None and stat[0] not in "ZX":
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
