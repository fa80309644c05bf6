"""A listening host whose wall clock a test can move while it works."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from contracts.clock import SystemClock
from dispatch.key_store import create_sender
from tests.support.broker import Broker
from tests.support.fleet import make_repository
from tests.support.hosts import LANE, SENDER, Host, Sender, make_host
from tests.support.jumping_clock import OFFSET_FILE, JumpingClock, move_clock

DAY_S: Final = 86_400
_START: Final = "import sys; from tests.support.jumping_clock import main; main(*sys.argv[1:])"
_ROOT: Final = str(Path(__file__).resolve().parents[2])


class ClockedHost(Host):
    """A host whose listener runs with a clock that a test can move."""

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-P", "-c", _START, self.name, LANE]

    def move_clock(self, seconds: float) -> None:
        move_clock(self.home, seconds)


@contextmanager
def clocked_host(folder: Path, broker: Broker, *, key_age_s: float) -> Iterator[ClockedHost]:
    """Yield a listening host whose sender's keys are so old."""
    (folder / "long-ago").mkdir()
    move_clock(folder / "long-ago", -key_age_s)
    then = JumpingClock(folder / "long-ago" / OFFSET_FILE)
    create_sender(folder / "sender" / "keys", SENDER, then)
    sender = Sender(folder / "sender" / "keys", clock=then)
    repo = make_repository(folder / "repo", {"readme.txt": "hello\n"})
    made = make_host(folder, broker, sender, repo)
    sender.clock = SystemClock()
    host = ClockedHost(made.home, broker, sender, repo)
    host.extra = {"PYTHONPATH": ":".join([_ROOT, *(path for path in sys.path if path)])}
    host.move_clock(0)
    host.start()
    try:
        yield host
    finally:
        host.stop()
