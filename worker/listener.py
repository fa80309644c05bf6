"""The listener of one host: builds its parts, starts them in order, and ends them in order.

Start: the host's lease, what a crash left, then heartbeat, outbox and intake. End: the first
signal drains (nothing new, what runs may finish), the second or the drain's deadline stops what
runs and keeps its work. Everything it still owes then stands in the journal.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Final

from contracts import naming
from contracts.clock import Clock
from contracts.errors import DiskFull, InvalidRequest, KeysRefused, Problem, Refused
from dispatch.broker_url import masked_url
from dispatch.keyring import HostKeyring
from dispatch.queue import FleetQueue
from runagent.process import ProcessRunner
from worker.announcer import Say
from worker.bells import Bells
from worker.board import Board
from worker.broker_connection import connect_listener
from worker.drain import Drain
from worker.entry import RunEnvelope
from worker.entry_ports import EntryPorts
from worker.heartbeat import LEASE_KIND, LEASE_S, Heartbeat, HostState
from worker.intake import Intake
from worker.journal import Journal
from worker.lane_claims import LaneClaims
from worker.outbox import Outbox
from worker.probes import Probes
from worker.recovery import recover
from worker.reserve import Reserve
from worker.runs import Runs
from worker.sealed import SealedWorker
from worker.settings import HostSettings, load_policy

_LAST_DELIVERY_S: Final = 5.0


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
        self._settings, self._clock, self._say = settings, clock, say
        self._stop, self._force = threading.Event(), threading.Event()
        policy = load_policy(settings)
        keyring = HostKeyring.load(settings.keys_dir, settings.host, clock)
        self._check_keys(keyring)
        connection = connect_listener(settings.redis_url)
        self._queue = FleetQueue(connection, settings.redis_url, clock)
        self._reserve = Reserve(settings.state_dir)
        self._journal = self._reserve.lend(
            lambda: Journal(settings.journal_file, clock, witness=settings.witness_file)
        )
        self._take_lease()
        instance = self._journal.instance()
        board = Board(connection, settings.host, clock)
        crash = settings.crash
        self._outbox = Outbox(
            self._journal, self._queue, board, keyring, clock, say, crash, reserve=self._reserve
        )
        # A plan has two commands at most; the worktree is made once and looked at three times.
        other_limits_s = float(2 * settings.validation_timeout_s + 4 * settings.worktree_timeout_s)
        self._runs = Runs(runner, environment, other_limits_s=other_limits_s)
        entry = RunEnvelope(
            EntryPorts(
                settings=settings,
                policy=policy,
                keyring=keyring,
                journal=self._journal,
                lanes=LaneClaims(connection, settings.host, clock, instance=instance),
                board=board,
                outbox=self._outbox,
                runs=self._runs,
                reserve=self._reserve,
                clock=clock,
                say=say,
                crash=crash,
            )
        )
        queues = [
            name
            for lane in settings.lanes
            for name in (naming.host_queue(lane, settings.host), naming.lane_queue(lane))
        ]
        self._bells = Bells(connection, queues)
        self._intake = Intake(
            [SealedWorker(queue, settings.host, connection) for queue in queues],
            entry,
            slots=settings.concurrency,
            bells=self._bells,
            board=board,
            clock=clock,
            say=say,
            broker=masked_url(settings.redis_url),
        )
        self._drain = Drain(
            self._intake,
            self._runs,
            self._outbox,
            hurry=self._force,
            limit_s=settings.drain_timeout_s,
            clock=clock,
            say=say,
        )
        self._probes = Probes(runner, settings.presets, environment, folder=settings.state_dir)
        state = HostState(
            host=settings.host,
            lanes=settings.lanes,
            slots=settings.concurrency,
            free=self._intake.free,
            agents=self._probes.found,
            instance=instance,
        )
        self._heartbeat = Heartbeat(connection, self._journal, state, clock, say)

    def run(self) -> None:
        """Serve until a signal, or `request_stop`, ends it; return when it has ended in order."""
        settings = self._settings
        lanes, url = ",".join(settings.lanes), masked_url(settings.redis_url)
        self._say("listening", host=settings.host, lanes=lanes, broker=url)
        if not self._reserve.hold():
            self._say("disk_full", folder=settings.state_dir, remedy="free space there")
        for job_id in self._reserve.lend(self._recover):
            self._say("recovered", job=job_id)
        self._reserve.lend(self._journal.prune)
        ended = threading.Event()
        background = [
            threading.Thread(target=self._heartbeat.run, args=(ended,), name="heartbeat"),
            threading.Thread(target=self._outbox.run, args=(ended,), name="outbox"),
            threading.Thread(target=self._probes.look, name="probes", daemon=True),
        ]
        for thread in background:
            thread.start()
        try:
            self._intake.run(self._stop)
            self._drain.run()
        finally:
            ended.set()
            self._outbox.wake()
            for thread in background[:2]:
                thread.join(_LAST_DELIVERY_S)
            self._close()

    def _recover(self) -> tuple[str, ...]:
        host = self._settings.host
        return recover(self._journal, self._outbox, host=host, clock=self._clock)

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

    def _close(self) -> None:
        self._heartbeat.stop()
        self._bells.close()
        # A dead process's lease holds nobody up: a disk without room for this is no fault.
        with contextlib.suppress(DiskFull):
            self._journal.leases.release(LEASE_KIND, self._settings.host)
        self._journal.close()
        self._queue.close()
        self._say("stopped", host=self._settings.host)

    def _check_keys(self, keyring: HostKeyring) -> None:
        held = keyring.audiences()
        without = [lane for lane in self._settings.lanes if naming.lane_audience(lane) not in held]
        if len(without) == len(self._settings.lanes):
            raise KeysRefused(
                f"no accepted grant covers lane {', '.join(without)}",
                code="missing",
                remedy="fleet-dispatch keys grant HOST --lanes …, then keys accept FILE here",
            )
        for lane in without:
            self._say("lane_without_key", lane=lane)

    def _take_lease(self) -> None:
        host = self._settings.host
        holder = self._reserve.lend(
            lambda: self._journal.leases.acquire(LEASE_KIND, host, seconds=LEASE_S)
        )
        if holder is not None:
            self._journal.close()
            machine, pid, _ = holder.rsplit(":", 2)
            raise Refused(
                f"a listener of host {host} runs already: process {pid} on {machine}",
                code="already_listening",
                remedy="stop that one, or give this one another --host and home",
            )
