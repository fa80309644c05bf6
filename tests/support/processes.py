"""Real processes for tests: what they are made of, how they are found, how they are ended.

Everything a test starts carries a random token in its arguments or environment. It is found by that
token or by its pid, and ended by pid; never by a name or a pattern.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# argv: token, then words. Every word but the last says what a descendant does; the last one what
# the leader does. Nothing here lives longer than 60 s, and a storm has 120 processes at most.
RUNAWAY = """
import os, signal, sys, time
token, *words = sys.argv[1:]
end = time.monotonic() + 60
ready, got_there = os.pipe()

def rest():
    while time.monotonic() < end:
        time.sleep(1)
    os._exit(0)

def settled():
    os.write(got_there, b".")

def spawn(work):
    if os.fork() == 0:
        work()
        rest()
    os.read(ready, 1)  # it got out before anybody can hunt it

def setsid():
    os.setsid()
    settled()

def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    settled()

def double():
    if os.fork():
        os._exit(0)
    os.setsid()
    deaf()

def clean():
    os.setsid()
    settled()
    os.execve(sys.executable, [sys.executable, "-ISE", __file__, token, "quiet"], {})

def chain():
    global end
    end = time.monotonic() + 20
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    beat = os.open(__file__ + ".beat", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    links = 0
    while time.monotonic() < end and os.path.exists(__file__):
        if os.fork():
            os._exit(0)
        os.setsid()
        os.write(beat, b".")
        time.sleep(0.002)
        links += 1
        if links == 1:
            settled()

def storm():
    deaf()
    while os.read(tickets, 1):
        os.fork()
        if os.getpid() % 3 == 0 and os.getpgid(0) != os.getpid():
            os.setsid()

def leave(*_):
    os._exit(0)

tickets, writer = os.pipe()
os.write(writer, b"." * 120)
os.close(writer)
for word in words[:-1]:
    name, _, count = word.partition("*")
    for _ in range(int(count or 1)):
        spawn(globals()[name])
if words[-1] == "hold":      # a descendant holds the pipes, the leader goes
    os._exit(0)
if words[-1] == "leave":     # the leader exits on TERM
    signal.signal(signal.SIGTERM, leave)
if words[-1] == "deafstay":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if words[-1] == "exit":
    os._exit(0)
if words[-1] != "quiet":
    print("up", flush=True)
rest()
"""


def new_token() -> str:
    """Return a text that no other process on the machine has."""
    return f"fdtest-{secrets.token_hex(8)}"


def runaway_argv(folder: Path, token: str, *words: str) -> tuple[str, ...]:
    """Return the argv of a program that tries to outlive its run; see RUNAWAY for the words."""
    script = folder / "runaway.py"
    script.write_text(RUNAWAY, encoding="utf-8")
    return (sys.executable, "-I", "-S", "-E", str(script), token, *words)


def is_alive(pid: int) -> bool:
    """Say whether `pid` runs; a zombie does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return text.rpartition(b")")[2].split()[0] not in {b"Z", b"X"}


def state_of(pid: int) -> str:
    """Return the state letter of `pid`, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    """Return the parent of `pid`."""
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])


def zombies_of(parent: int) -> list[int]:
    """Return the zombie children of `parent`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and state_of(int(entry.name)) == "Z":
            try:
                if parent_of(int(entry.name)) == parent:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def with_token(token: str) -> list[int]:
    """Return every living process, but this one, with `token` in its arguments or environment."""
    wanted = token.encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            text = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
        except OSError:
            continue
        if wanted in text and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found


def wait_until(happened: Callable[[], object], within_s: float = 10.0) -> bool:
    """Look every 10 ms until `happened()` is true; say whether it became so in time."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if happened():
            return True
        time.sleep(0.01)
    return bool(happened())


def is_chain_beating(folder: Path) -> bool:
    """Say whether a `chain` still runs: each link lives 2 ms, which a walk of /proc may miss."""
    beat = folder / "runaway.py.beat"
    if not beat.exists():
        return False
    before = beat.stat().st_size
    return wait_until(lambda: beat.stat().st_size > before, within_s=0.15)


def break_chain(folder: Path) -> None:
    """End a `chain` without a hunt: it goes on only while its script is there."""
    (folder / "runaway.py").unlink()
    wait_until(lambda: not is_chain_beating(folder))


def end_all(token: str) -> int:
    """End every process with `token`, by pid, until five looks find none; return how many."""
    ended: set[int] = set()
    until = time.monotonic() + 10
    empty = 0
    while empty < 5 and time.monotonic() < until:
        found = with_token(token)
        empty = 0 if found else empty + 1
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    continue
        ended.update(found)
    return len(ended)


@contextmanager
def hunted() -> Iterator[str]:
    """Give a token, and end whatever still carries it afterwards."""
    token = new_token()
    try:
        yield token
    finally:
        end_all(token)
