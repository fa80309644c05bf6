"""Pipes, arguments and the state a program starts in: bytes stay bytes, memory stays flat."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from contracts.errors import Unavailable
from runagent._pipes import Tail
from runagent.process import EndState, ProcessOutcome, ProcessSpec, run, system_runner

pytestmark = pytest.mark.linux
ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024


def start_and_wait(
    folder: Path,
    *argv: str,
    env: dict[str, str] | None = None,
    stdin: bytes | None = None,
    timeout_s: float = 30.0,
    cwd: str | None = None,
) -> ProcessOutcome:
    spec = ProcessSpec(
        argv=argv,
        cwd=str(folder) if cwd is None else cwd,
        env={"PATH": os.defpath} if env is None else env,
        timeout_s=timeout_s,
        grace_s=0.3,
        stdin=stdin,
    )
    return run(system_runner(), spec)


# VmHWM and not ru_maxrss: that one is inherited over fork and exec from whoever started us.
PEAK = """
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
"""
MEASURED = (
    PEAK
    + """
import json, os, sys
from runagent.process import ProcessSpec, run, system_runner
chunks = []
count = lambda stream, chunk: chunks.append(len(chunk)) or chunks.clear()
spec = ProcessSpec(argv=("sh", "-c", sys.argv[1]), cwd="/", env={"PATH": os.defpath},
                   timeout_s=100, sink=count if sys.argv[2] == "sink" else None)
before = peak()
outcome = run(system_runner(), spec)
grown = peak() - before
print(json.dumps([outcome.state, outcome.stdout_total, outcome.stderr_total,
                  len(outcome.stdout), grown, outcome.seconds]))
"""
)


def measure(script: str, sink: str = "no") -> list[int]:
    argv = (sys.executable, "-c", MEASURED, script, sink)
    done = subprocess.run(argv, cwd=ROOT, env={"PATH": os.defpath}, stdout=subprocess.PIPE)
    result: list[int] = json.loads(done.stdout)
    return result


def test_two_gigabytes_leave_memory_flat() -> None:
    script = "head -c 1G /dev/zero & head -c 1G /dev/zero >&2; wait"
    state, out, err, kept, grown, _ = measure(script)

    assert (state, out, err, kept) == ("exited", 1024 * MIB, 1024 * MIB, MIB)
    assert grown < 24 * MIB


def test_control_communicate_holds_what_it_reads() -> None:
    script = PEAK + (
        "import subprocess\n"
        "before = peak()\n"
        "subprocess.run(('head', '-c', '200M', '/dev/zero'), stdout=subprocess.PIPE)\n"
        "print(peak() - before)\n"
    )
    done = subprocess.run((sys.executable, "-c", script), stdout=subprocess.PIPE)

    assert int(done.stdout) > 150 * MIB


def test_one_line_of_500_megabytes_leaves_memory_flat_with_a_live_sink() -> None:
    state, out, _, kept, grown, _ = measure("head -c 500M /dev/zero", "sink")

    assert (state, out, kept) == ("exited", 500 * MIB, MIB)
    assert grown < 24 * MIB


def test_a_tail_holds_twice_its_size_at_most_even_from_single_bytes() -> None:
    tail = Tail(100)
    for number in range(1000):
        tail.keep(bytes([number % 256]))
        assert len(tail._kept) <= 201

    assert tail.last() == bytes(number % 256 for number in range(900, 1000))
    assert tail.total == 1000


def test_bytes_that_are_no_text_are_kept_as_they_are(tmp_path: Path) -> None:
    raw = b"\xff\xfe\x00 \xe2\x82" + "ä".encode()[:1]
    script = "import sys; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1]))"

    outcome = start_and_wait(tmp_path, sys.executable, "-c", script, raw.hex())
    assert outcome.stdout == raw


def test_four_megabytes_reach_a_slow_reader(tmp_path: Path) -> None:
    data = os.urandom(4 * MIB)
    script = "sleep 0.3; (head -c 1000000; sleep 0.2; cat) | sha256sum"
    outcome = start_and_wait(tmp_path, "sh", "-c", script, stdin=data)

    assert outcome.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_a_program_that_does_not_read_its_input_ends_as_it_likes(tmp_path: Path) -> None:
    outcome = start_and_wait(tmp_path, "true", stdin=b"x" * (4 * MIB))

    assert (outcome.state, outcome.exit_code) == (EndState.EXITED, 0)


def test_a_reader_that_never_reads_does_not_hold_the_deadline(tmp_path: Path) -> None:
    outcome = start_and_wait(tmp_path, "sleep", "60", stdin=b"x" * (4 * MIB), timeout_s=0.3)

    assert outcome.state is EndState.TIMED_OUT
    assert outcome.seconds < 3


def test_a_blocked_write_is_released_when_the_process_ends(tmp_path: Path) -> None:
    spec = ProcessSpec(
        argv=("sleep", "60"),
        cwd=str(tmp_path),
        env={"PATH": os.defpath},
        timeout_s=0.5,
        grace_s=0.2,
        keep_stdin_open=True,
    )
    running = system_runner().start(spec)
    raised: list[BaseException] = []

    def write() -> None:
        try:
            running.write(b"x" * (8 * MIB))
        except Unavailable as error:
            raised.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    assert running.wait().state is EndState.TIMED_OUT
    writer.join(5)
    assert len(raised) == 1


def test_an_open_input_is_a_conversation(tmp_path: Path) -> None:
    heard = threading.Event()
    spec = ProcessSpec(
        argv=("sh", "-c", 'read a; echo "got $a"; read b; echo "got $b"'),
        cwd=str(tmp_path),
        env={"PATH": os.defpath},
        timeout_s=20,
        keep_stdin_open=True,
        sink=lambda stream, chunk: heard.set(),
    )
    running = system_runner().start(spec)
    running.write(b"one\n")
    assert heard.wait(10)
    running.write(b"two\n")

    assert running.wait().stdout == b"got one\ngot two\n"


def test_a_sink_that_never_returns_does_not_hold_us(tmp_path: Path) -> None:
    release = threading.Event()
    spec = ProcessSpec(
        argv=("echo", "x"),
        cwd=str(tmp_path),
        env={"PATH": os.defpath},
        timeout_s=20,
        sink=lambda stream, chunk: release.wait(30),
    )
    began = time.monotonic()
    try:
        outcome = run(system_runner(), spec)
    finally:
        release.set()

    assert time.monotonic() - began < 5
    assert outcome.stdout == b"x\n"


def test_the_program_gets_three_descriptors_and_no_more(tmp_path: Path) -> None:
    keep, leak = os.pipe()
    os.set_inheritable(leak, True)
    try:
        script = "import os; print(*sorted(int(n) for n in os.listdir('/proc/self/fd')))"
        outcome = start_and_wait(tmp_path, sys.executable, "-I", "-c", script)
    finally:
        os.close(keep)
        os.close(leak)

    assert outcome.stdout == b"0 1 2 3\n"  # 3 is the listing itself


def test_signals_are_default_and_nothing_is_blocked(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})
    try:
        outcome = start_and_wait(tmp_path, "cat", "/proc/self/status")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGHUP, before)

    status = dict(line.split(b":", 1) for line in outcome.stdout.splitlines())
    # The C library keeps two signals for itself; its posix_spawn, as make uses it, ignores them.
    ours = ~(1 << 31 | 1 << 32)
    assert [int(status[name], 16) & ours for name in (b"SigBlk", b"SigIgn", b"SigCgt")] == [0, 0, 0]


def test_umask_and_working_directory_are_kept(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        outcome = start_and_wait(tmp_path, "sh", "-c", "umask; pwd -P")
    finally:
        os.umask(before)

    assert outcome.stdout.split() == [b"0027", os.fsencode(tmp_path.resolve())]


def test_the_environment_is_the_spec_and_the_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "stays here")
    env = {"PATH": os.defpath, "A": "1=2", "B": "\udcff\n"}
    outcome = start_and_wait(tmp_path, "env", "-0", env=env)
    entries = [entry for entry in outcome.stdout.split(b"\0") if entry]
    marker = [entry for entry in entries if entry.startswith(b"FLEET_DISPATCH_RUN=")]

    assert len(marker) == 1
    assert sorted(set(entries) - set(marker)) == sorted(
        [b"PATH=" + os.fsencode(os.defpath), b"A=1=2", b"B=\xff\n"]
    )


def test_the_program_is_found_on_the_path_it_is_given_not_on_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tools" / "agent"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho tool\n", encoding="utf-8")
    tool.chmod(0o755)
    there = {"PATH": f"{tool.parent}:{os.defpath}"}

    assert start_and_wait(tmp_path, "agent", env=there).stdout == b"tool\n"
    monkeypatch.setenv("PATH", str(tool.parent))
    assert start_and_wait(tmp_path, "agent").state is EndState.NOT_STARTED


@pytest.mark.parametrize("path", ["", ".", ":/bin", "tools"])
def test_a_program_lying_in_the_working_directory_is_never_found_by_name(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "tools").mkdir()
    for folder in (tmp_path, tmp_path / "tools"):
        (folder / "codex").write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / "codex").chmod(0o755)

    outcome = start_and_wait(tmp_path, "codex", env={"PATH": path})
    assert outcome.state is EndState.NOT_STARTED


def make(path: Path, text: str, mode: int) -> str:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return str(path)


def test_what_cannot_be_started_says_what_and_how_to_mend_it(tmp_path: Path) -> None:
    plain = make(tmp_path / "plain", "x", 0o644)
    lost = make(tmp_path / "lost", "#!/no/such/interpreter\n", 0o755)
    blob = make(tmp_path / "blob", "\x01\x02", 0o755)
    rows = [
        (("/no/such/agent",), None, ["/no/such/agent", "install it"]),
        ((plain,), None, [plain, "chmod +x"]),
        (("plain",), None, [plain, "chmod +x"]),
        ((lost,), None, [lost, "interpreter"]),
        ((blob,), None, [blob, "no program"]),
        (("true", "x" * 140_000), None, ["140000", "standard input"]),
        (("true",), "/no/such/folder", ["/no/such/folder", "exists"]),
        (("true",), plain, [plain, "exists"]),
        (("true", "a\0b"), None, ["NUL"]),
    ]
    for argv, cwd, words in rows:
        env = {"PATH": f"{tmp_path}:{os.defpath}"}
        outcome = start_and_wait(tmp_path, *argv, cwd=cwd, env=env)
        assert outcome.state is EndState.NOT_STARTED, argv[0]
        assert outcome.exit_code is None
        for word in words:
            assert word in outcome.why


def test_an_environment_with_a_nul_is_not_started(tmp_path: Path) -> None:
    outcome = start_and_wait(tmp_path, "true", env={"PATH": os.defpath, "SECRET": "a\0b"})

    assert outcome.state is EndState.NOT_STARTED
    assert "a\0b" not in outcome.why


def test_a_signal_is_reported_as_a_shell_does(tmp_path: Path) -> None:
    outcome = start_and_wait(tmp_path, "sh", "-c", "kill -SEGV $$")

    assert (outcome.state, outcome.exit_code) == (EndState.EXITED, 139)


def test_a_leader_that_exits_0_on_term_is_still_timed_out(tmp_path: Path) -> None:
    script = 'trap "echo success; exit 0" TERM; echo up; while :; do sleep 0.05; done'
    outcome = start_and_wait(tmp_path, "sh", "-c", script, timeout_s=0.5)

    assert (outcome.state, outcome.exit_code) == (EndState.TIMED_OUT, 0)
    assert outcome.stdout == b"up\nsuccess\n"


def test_a_host_without_processes_left_is_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(subprocess, "Popen", refuse)
    outcome = start_and_wait(tmp_path, "true")

    assert outcome.state is EndState.NOT_STARTED
    assert "out of processes" in outcome.why
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_watching_process_that_cannot_start_is_an_outcome_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/sh")
    before = len(os.listdir("/proc/self/fd"))
    outcome = start_and_wait(tmp_path, "true")

    assert outcome.state is EndState.NOT_STARTED
    assert "watching process" in outcome.why
    assert len(os.listdir("/proc/self/fd")) == before
