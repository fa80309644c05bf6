"""A listener whose wall clock a test can move while it runs: the product's own parts, one clock.

Run as a program it is `fleet-dispatch listen` with a clock that adds the seconds in the file
`offset` of its home. The monotonic clock is the machine's: a correction of the time moves no other.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from runagent.process import system_runner
from worker.announcer import Announcer
from worker.listener import Listener
from worker.settings import load_host_settings, process_environment

OFFSET_FILE = "offset"


class JumpingClock:
    """The machine's clocks, the wall clock moved by what stands in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def wall(self) -> float:
        """Return seconds since the Unix epoch, moved."""
        return time.time() + float(self._file.read_text() or 0)

    def monotonic(self) -> float:
        """Return seconds that never go back, not moved."""
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait until `event` is set or `seconds` have passed; say whether it was set."""
        return event.wait(seconds)


def move_clock(home: Path, seconds: float) -> None:
    """Move the wall clock of the listener of `home` in one step."""
    new = home / "offset.new"
    new.write_text(str(seconds))
    new.replace(home / OFFSET_FILE)


def main(host: str, lane: str) -> None:
    """Serve `lane` as `host` until a signal ends it."""
    clock = JumpingClock(Path(os.environ["HOME"]) / OFFSET_FILE)
    listener = Listener(
        load_host_settings(flags={"host.name": host, "host.lanes": (lane,)}),
        environment=process_environment(),
        runner=system_runner(),
        clock=clock,
        say=Announcer(clock),
    )
    listener.install_signals()
    listener.run()
