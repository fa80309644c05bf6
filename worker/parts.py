"""The parts of one listener, built once and in order: keys and broker, journal and lease, then what
takes jobs, what runs them and what answers.

Composes; owns no rule of any part and starts none of them. Whoever adds a part gives it a field
here, and its place in `worker/listener.py` where it begins and ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from contracts.clock import Clock
from dispatch.broker_url import masked_url
from dispatch.holdings import held_statements
from dispatch.keyring import HostKeyring
from dispatch.queue import FleetQueue
from runagent.process import ProcessRunner
from worker.announcer import Say
from worker.broker.bells import Bells
from worker.broker.board import Board
from worker.broker.connection import connect_listener
from worker.broker.event_stream import EventStream
from worker.broker.hang_up import HangUp
from worker.broker.heartbeat import Heartbeat, HostState
from worker.broker.intake import Intake
from worker.broker.lane_claims import LaneClaims, NoLaneClaims
from worker.broker.outbox import Outbox
from worker.broker.queues import queues_served
from worker.controls import Controls, build_controls
from worker.door import Door, DoorPorts, build_door
from worker.drain import Drain
from worker.entry import RunEnvelope
from worker.entry_ports import EntryPorts
from worker.housekeeping import Housekeeping
from worker.journal.host_lease import HostLease
from worker.journal.journal import Journal
from worker.kinds.table import HostKinds
from worker.lane_keys import check_lane_keys
from worker.policy_file import PolicyFile
from worker.probes import Probes
from worker.receipts import Receipts
from worker.reserve import Reserve
from worker.runs.lost_runs import LostRuns
from worker.runs.recovery import WHY_ENDED, Recovery
from worker.runs.run_folders import RunFolders
from worker.runs.runs import Runs, follow_nothing
from worker.sealed import SealedWorker
from worker.seats import Seats
from worker.settings import HostSettings
from worker.slots import Slots
from worker.trees.desk import open_desk
from worker.trees.periodic import PeriodicCollection


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a listener is built from. `stop` is set by the first signal, `force` by the second, and
    `give_way` is called when another listener has this host's lease."""

    settings: HostSettings
    environment: Mapping[str, str]
    runner: ProcessRunner
    clock: Clock
    say: Say
    stop: threading.Event
    force: threading.Event
    give_way: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts as the listener starts and ends them."""

    hang_up: HangUp
    queue: FleetQueue
    reserve: Reserve
    journal: Journal
    lease: HostLease
    outbox: Outbox
    events: EventStream
    recovery: Recovery
    housekeeping: Housekeeping
    bells: Bells
    intake: Intake
    door: Door | None  # None: no HTTP
    drain: Drain
    probes: Probes
    heartbeat: Heartbeat
    controls: Controls
    collection: PeriodicCollection


def build_parts(given: Given) -> Parts:
    """Build everything; nothing runs and nothing is taken yet, but this host's lease is ours.

    Raises Refused (no policy, or another listener of this host), KeysRefused (no grant),
    Unavailable or CouldNotCheck (journal).
    """
    settings, runner, clock, say = given.settings, given.runner, given.clock, given.say
    policy = PolicyFile(settings, clock, say)
    keyring = HostKeyring.load(settings.keys_dir, settings.host, clock)
    check_lane_keys(settings, keyring, say)
    connection = connect_listener(settings.redis_url)
    queue = FleetQueue(connection, settings.redis_url, clock)
    reserve = Reserve(settings.state_dir)
    journal = reserve.lend(
        lambda: Journal(settings.journal_file, clock, witness=settings.witness_file)
    )
    lease = HostLease(journal, settings.host, reserve, clock, say)
    _take_lease(lease, journal)
    instance = journal.instance()
    board = Board(connection, settings.host, clock)
    crash = settings.crash
    outbox = Outbox(journal, queue, board, keyring, clock, say, crash, reserve=reserve)
    events = EventStream(connection, journal, keyring, settings.runtime_dir, clock, say)
    lost = LostRuns(journal, settings.runtime_dir, runner, settings.worktree_timeout_s)
    recovery = Recovery(
        journal,
        lost,
        events.following(partial(outbox.conclude, why=WHY_ENDED)),
        host=settings.host,
        reserve=reserve,
        say=say,
    )
    folders = RunFolders(settings.runs_dir, journal, clock)
    runs = Runs(
        runner,
        given.environment,
        journal,
        other_limits_s=settings.other_limits_s,
        follow=events.follow if settings.uses_queue else follow_nothing,
    )
    make_claims = LaneClaims if settings.uses_queue else NoLaneClaims
    lanes = make_claims(connection, settings.host, clock, instance=instance)
    receipts = Receipts(keyring, clock, say)
    controls = build_controls(
        connection,
        settings,
        keyring=keyring,
        journal=journal,
        runs=runs,
        outbox=outbox,
        events=events,
        receipts=receipts,
        clock=clock,
        say=say,
    )
    entry = RunEnvelope(
        EntryPorts(
            settings=settings,
            policy=policy,
            keyring=keyring,
            journal=journal,
            lanes=lanes,
            board=board,
            outbox=outbox,
            kinds=HostKinds(settings, runs, clock, given.environment),
            seats=Seats(),
            receipts=receipts,
            reserve=reserve,
            lost_runs=lost,
            look_for_cancel=controls.look_for,
            clock=clock,
            say=say,
            crash=crash,
        )
    )
    queues = queues_served(settings.host, settings.lanes)
    bells = Bells(connection, queues)
    slots = Slots(settings.concurrency, clock)
    intake = Intake(
        [SealedWorker(queue_name, settings.host, connection) for queue_name in queues],
        entry,
        slots=slots,
        bells=bells,
        board=board,
        clock=clock,
        say=say,
        broker=masked_url(settings.redis_url),
    )
    drain = Drain(
        slots,
        runs,
        outbox,
        hurry=given.force,
        limit_s=settings.drain_timeout_s,
        clock=clock,
        say=say,
    )
    probes = Probes(runner, settings.presets, given.environment, folder=settings.state_dir)
    state = HostState(
        host=settings.host,
        lanes=settings.lanes,
        slots=settings.concurrency,
        free=slots.free,
        jobs=slots.job_ids,
        agents=probes.found,
        instance=instance,
        draining=given.stop.is_set,
        note=policy.trouble,
        held=partial(held_statements, keyring),
    )
    door = build_door(
        settings,
        DoorPorts(
            entry=entry,
            slots=slots,
            journal=journal,
            outbox=outbox,
            receipts=receipts,
            controls=controls,
            is_draining=given.stop.is_set,
            clock=clock,
            say=say,
        ),
    )
    desk = open_desk(settings, journal, runner=runner, clock=clock)
    return Parts(
        hang_up=HangUp(connection, clock),
        queue=queue,
        reserve=reserve,
        journal=journal,
        lease=lease,
        outbox=outbox,
        events=events,
        recovery=recovery,
        housekeeping=Housekeeping(journal, folders, clock, say),
        bells=bells,
        intake=intake,
        door=door,
        drain=drain,
        probes=probes,
        heartbeat=Heartbeat(
            connection, state, clock, say, renew=partial(lease.renew, given.give_way)
        ),
        controls=controls,
        collection=PeriodicCollection(desk.collector, clock, say),
    )


def _take_lease(lease: HostLease, journal: Journal) -> None:
    try:
        lease.take()
    except BaseException:
        journal.close()
        raise
