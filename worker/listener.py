"""The listener of one host: builds its parts, starts them in order, and ends them in order.

Start: the host's lease, what a crash left, then heartbeat, outbox and intake. End: the first
signal drains (nothing new, what runs may finish), the second or the drain's deadline stops what
runs and keeps its work. Everything it still owes then stands in the journal.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping
from functools import partial
from types import FrameType
from typing import Final

from contracts import naming
from contracts.clock import Clock
from contracts.errors import InvalidRequest, KeysRefused, Problem
from dispatch.broker_url import masked_url
from dispatch.keyring import HostKeyring
from dispatch.queue import FleetQueue
from runagent.process import ProcessRunner
from worker.announcer import Say
from worker.broker.bells import Bells
from worker.broker.board import Board
from worker.broker.connection import connect_listener
from worker.broker.hang_up import HangUp
from worker.broker.heartbeat import Heartbeat, HostState
from worker.broker.intake import Intake
from worker.broker.lane_claims import LaneClaims
from worker.broker.outbox import Outbox
from worker.drain import Drain
from worker.entry import RunEnvelope
from worker.entry_ports import EntryPorts
from worker.housekeeping import Housekeeping
from worker.journal.host_lease import HostLease
from worker.journal.journal import Journal
from worker.probes import Probes
from worker.reserve import Reserve
from worker.runs.lost_runs import LostRuns
from worker.runs.recovery import WHY_ENDED, Recovery
from worker.runs.run_folders import RunFolders
from worker.runs.runs import Runs
from worker.sealed import SealedWorker
from worker.settings import HostSettings, load_policy
from worker.trees.desk import open_desk
from worker.trees.periodic import PeriodicCollection

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
        self._settings, self._clock, self._say = settings, clock, say
        self._stop, self._force = threading.Event(), threading.Event()
        policy = load_policy(settings)
        keyring = HostKeyring.load(settings.keys_dir, settings.host, clock)
        self._check_keys(keyring)
        connection = connect_listener(settings.redis_url)
        self._hang_up = HangUp(connection, clock)
        self._queue = FleetQueue(connection, settings.redis_url, clock)
        self._reserve = Reserve(settings.state_dir)
        self._journal = self._reserve.lend(
            lambda: Journal(settings.journal_file, clock, witness=settings.witness_file)
        )
        self._lease = HostLease(self._journal, settings.host, self._reserve, clock, say)
        self._take_lease()
        instance = self._journal.instance()
        board = Board(connection, settings.host, clock)
        crash = settings.crash
        self._outbox = Outbox(
            self._journal, self._queue, board, keyring, clock, say, crash, reserve=self._reserve
        )
        # A plan has two commands at most; the worktree is made once and looked at three times.
        other_limits_s = float(2 * settings.validation_timeout_s + 4 * settings.worktree_timeout_s)
        lost = LostRuns(self._journal, settings.runtime_dir, runner, settings.worktree_timeout_s)
        self._recovery = Recovery(
            self._journal,
            lost,
            partial(self._outbox.conclude, why=WHY_ENDED),
            host=settings.host,
            reserve=self._reserve,
            say=say,
        )
        folders = RunFolders(settings.runs_dir, self._journal, clock)
        self._housekeeping = Housekeeping(self._journal, folders, clock, say)
        self._runs = Runs(runner, environment, self._journal, other_limits_s=other_limits_s)
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
                lost_runs=lost,
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
            jobs=self._intake.job_ids,
            agents=self._probes.found,
            instance=instance,
            draining=self._stop.is_set,
        )
        self._heartbeat = Heartbeat(
            connection, state, clock, say, renew=partial(self._lease.renew, self._give_way)
        )
        desk = open_desk(settings, self._journal, runner=runner, clock=clock)
        self._collection = PeriodicCollection(desk.collector, clock, say)

    def run(self) -> None:
        """Serve until a signal, or `request_stop`, ends it; return when it has ended in order."""
        settings = self._settings
        lanes, url = ",".join(settings.lanes), masked_url(settings.redis_url)
        self._say("listening", host=settings.host, lanes=lanes, broker=url)
        if not self._reserve.hold():
            self._say("disk_full", folder=settings.state_dir, remedy="free space there")
        ended = threading.Event()
        background = [
            threading.Thread(target=self._heartbeat.run, args=(ended,), name="heartbeat"),
            threading.Thread(target=self._outbox.run, args=(ended,), name="outbox"),
            threading.Thread(target=self._housekeeping.run, args=(ended,), name="housekeeping"),
            threading.Thread(target=self._probes.look, name="probes", daemon=True),
        ]
        for thread in background:
            thread.start()
        try:
            self._recovery.run()
            self._housekeeping.tidy()
            if settings.worktrees.gc:
                self._collection.start(ended)
            with self._hang_up.after(_LOOK_S, since=self._stop):
                self._intake.run(self._stop)
            self._drain.run()
            with self._hang_up.after(_LAST_DELIVERY_S):
                self._outbox.deliver_all()
        finally:
            ended.set()
            self._outbox.wake()
            with self._hang_up.after(_CLOSING_S):
                for thread in background[:3]:
                    thread.join(_JOIN_S)
                self._close()

    def request_stop(self) -> None:
        """Drain at the first call; stop what runs, too, at the second."""
        if self._stop.is_set():
            self._force.set()
        self._stop.set()

    def _give_way(self) -> None:
        """End at once what runs: another listener has this host's lease, and has ended our jobs."""
        self._force.set()
        self._stop.set()

    def install_signals(self) -> None:
        """Let TERM and INT call `request_stop`. Only for the main thread."""

        def handle(_number: int, _frame: FrameType | None) -> None:
            self.request_stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, handle)

    def _close(self) -> None:
        if not self._lease.is_lost:
            self._heartbeat.stop()
        self._bells.close()
        self._lease.release()
        self._journal.close()
        self._queue.close()
        self._say("stopped", host=self._settings.host)

    def _take_lease(self) -> None:
        try:
            self._lease.take()
        except BaseException:
            self._journal.close()
            raise

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
