"""The listener of one host: starts its parts in order, and ends them in order.

Start: the host's lease, what a crash left, then heartbeat, outbox and intake. End: the first
signal drains (nothing new, what runs may finish), the second or the drain's deadline stops what
runs and keeps its work. Everything it still owes then stands in the journal.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final

from contracts.clock import Clock
from contracts.errors import InvalidRequest, Problem
from dispatch.broker_url import masked_url
from runagent.process import ProcessRunner
from worker.announcer import Say
from worker.parts import Given, Parts, build_parts
from worker.settings import HostSettings
from worker.trees.spare_keeper import spare_keeper

# How long a broker that does not answer may hold up each step of the end.
_LOOK_S: Final = 3.0
_LAST_DELIVERY_S: Final = 10.0
_CLOSING_S: Final = 3.0
_JOIN_S: Final = 10.0


class Listener:
    """One host's listener in this process."""

    def __init__(
        self,
        settings: HostSettings,
        *,
        environment: Mapping[str, str],
        runner: ProcessRunner,
        clock: Clock,
        say: Say,
    ) -> None:
        """Check what a listener needs before it touches the broker.

        Raises InvalidRequest (no lane), Refused (no policy, or another listener of this host),
        KeysRefused (no grant), Unavailable or CouldNotCheck (journal).
        """
        if not settings.lanes:
            problem = Problem("--lane", "is missing", "name a lane, or set [host] lanes")
            raise InvalidRequest([problem])
        self._settings, self._say = settings, say
        self._stop, self._force = threading.Event(), threading.Event()
        given = Given(
            settings=settings,
            environment=environment,
            runner=runner,
            clock=clock,
            say=say,
            stop=self._stop,
            force=self._force,
            give_way=self._give_way,
        )
        self._parts: Parts = build_parts(given)
        self._spares = spare_keeper(
            settings,
            self._parts.journal,
            environment=environment,
            runner=runner,
            clock=clock,
            say=say,
        )

    def run(self) -> None:
        """Serve until a signal, or `request_stop`, ends it; return when it has ended in order."""
        settings, parts = self._settings, self._parts
        lanes = ",".join(settings.lanes)
        url = masked_url(settings.redis_url) if settings.uses_queue else ""
        door = parts.door.url if parts.door is not None else ""
        self._say("listening", host=settings.host, lanes=lanes, broker=url, door=door)
        if not parts.reserve.hold():
            self._say("disk_full", folder=settings.state_dir, remedy="free space there")
        ended = threading.Event()
        background = [
            threading.Thread(target=run, args=(ended,), name=name)
            for name, run in self._background().items()
        ]
        for thread in background:
            thread.start()
        threading.Thread(target=parts.probes.look, name="probes", daemon=True).start()
        try:
            parts.recovery.run()
            background.append(self._tidy_first(ended))
            if settings.worktrees.gc:
                parts.collection.start(ended)
            self._spares.start(ended)
            if parts.door is not None:
                parts.door.start()
            self._take_jobs()
            parts.drain.run()
            if settings.uses_queue:
                with parts.hang_up.after(_LAST_DELIVERY_S):
                    parts.outbox.deliver_all()
        finally:
            if parts.door is not None:
                parts.door.close()
            ended.set()
            parts.outbox.wake()
            parts.events.wake()
            with parts.hang_up.after(_CLOSING_S):
                for thread in background:
                    thread.join(_JOIN_S)
                self._close()

    def _tidy_first(self, ended: threading.Event) -> threading.Thread:
        """Start the first tidying: after a recovery, and beside the jobs, since a hundred thousand
        of them may be due at once."""
        tidy = self._parts.housekeeping.tidy
        thread = threading.Thread(target=tidy, args=(ended,), name="tidy")
        thread.start()
        return thread

    def _background(self) -> dict[str, Callable[[threading.Event], None]]:
        """Return what runs beside the jobs, by name. Without a queue nothing touches the broker."""
        parts = self._parts
        always = {"housekeeping": parts.housekeeping.run}
        if self._settings.uses_queue:
            return {
                **always,
                "heartbeat": parts.heartbeat.run,
                "outbox": parts.outbox.run,
                "control": parts.controls.watch.run,
                "events": parts.events.run,
            }
        return {**always, "lease": parts.heartbeat.keep_lease}

    def _take_jobs(self) -> None:
        """Take jobs until the first signal; those of the door come by themselves."""
        if not self._settings.uses_queue:
            self._stop.wait()
            return
        with self._parts.hang_up.after(_LOOK_S, since=self._stop):
            self._parts.intake.run(self._stop)

    def request_stop(self) -> None:
        """Drain at the first call; stop what runs, too, at the second."""
        if self._stop.is_set():
            self._force.set()
        self._stop.set()

    def install_signals(self) -> None:
        """Let TERM and INT call `request_stop`. Only for the main thread."""

        def handle(_number: int, _frame: FrameType | None) -> None:
            self.request_stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, handle)

    def _give_way(self) -> None:
        """End at once what runs: another listener has this host's lease, and has ended our jobs."""
        self._force.set()
        self._stop.set()

    def _close(self) -> None:
        parts = self._parts
        if self._settings.uses_queue and not parts.lease.is_lost:
            parts.heartbeat.stop()
        parts.bells.close()
        parts.lease.release()
        parts.journal.close()
        parts.queue.close()
        self._say("stopped", host=self._settings.host)
