"""The parts by which senders reach their own jobs on this host, through whichever door."""

from __future__ import annotations

from dataclasses import dataclass

from redis import Redis

from contracts.clock import Clock
from dispatch.keyring import HostKeyring
from worker.announcer import Say
from worker.asks import Asks
from worker.broker.control_answers import ControlAnswers
from worker.broker.control_watch import ControlWatch
from worker.broker.event_stream import EventStream
from worker.broker.outbox import Outbox
from worker.control import Control
from worker.journal.journal import Journal
from worker.receipts import Receipts
from worker.runs.runs import Runs
from worker.settings import HostSettings


@dataclass(frozen=True, slots=True)
class Controls:
    """What orders and questions come to: `control` from both doors, `watch` from the broker."""

    control: Control
    asks: Asks
    watch: ControlWatch
    uses_queue: bool

    def look_for(self, job_id: str) -> None:
        """Look whether a job that is about to be taken was taken back. May raise Redis's errors;
        without a queue there is nowhere to look."""
        if self.uses_queue:
            self.watch.look([job_id])


def build_controls(
    connection: Redis,
    settings: HostSettings,
    *,
    keyring: HostKeyring,
    journal: Journal,
    runs: Runs,
    outbox: Outbox,
    events: EventStream,
    receipts: Receipts,
    clock: Clock,
    say: Say,
) -> Controls:
    """Build them; nothing is read yet."""
    asks = Asks(keyring, journal.asked, clock)
    control = Control(
        keyring,
        asks,
        journal,
        runs,
        lanes=settings.lanes,
        clock=clock,
        say=say,
        crash=settings.crash,
    )
    watch = ControlWatch(
        connection,
        settings.host,
        control,
        held=lambda: journal.cancels.concerned(journal.owner),
        clock=clock,
        say=say,
        answer=ControlAnswers(connection, journal, outbox, receipts, events.replay).give,
    )
    return Controls(control, asks, watch, settings.uses_queue)
