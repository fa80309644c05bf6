"""Results on their way back: in the journal before they are sent, sent until they are there.

A result is signed once and the signed text is kept; what is delivered later, after a restart too,
is that text byte for byte. Storing it twice is harmless on the other side. Never makes a result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from redis.exceptions import RedisError

from contracts.clock import Clock
from contracts.errors import CouldNotCheck, KeysRefused, Unavailable
from contracts.plain_result import Outcome, as_kept, read_outcome
from dispatch.keyring import HostKeyring
from dispatch.queue import FleetQueue, StoredAs
from worker.announcer import Say
from worker.broker.board import Board
from worker.crash_points import UNARMED, CrashPoints
from worker.journal.journal import Journal
from worker.journal.records import LOCAL_SENDER, JobRecord
from worker.reserve import Reserve
from worker.runs.cancelled import as_cancelled
from worker.runs.outcome import seal_result

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 10.0
_IDLE_S: Final = 30.0
_JOURNAL_PAUSE_S: Final = 5.0
# Results that follow each other are marked as delivered together: one commit less for each.
_MORE_WITHIN_S: Final = 0.02
_MARKED_MAX: Final = 32


class Outbox:
    """The results that one host owes its senders."""

    def __init__(
        self,
        journal: Journal,
        queue: FleetQueue,
        board: Board,
        keyring: HostKeyring,
        clock: Clock,
        say: Say,
        crash: CrashPoints = UNARMED,
        *,
        reserve: Reserve,
    ) -> None:
        """`reserve` is the room that a full disk still has for an end."""
        self._journal = journal
        self._queue = queue
        self._board = board
        self._keyring = keyring
        self._clock = clock
        self._say = say
        self._crash = crash
        self._reserve = reserve
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._away = False
        self._told: list[Callable[[str], None]] = []
        self._delivering = threading.Lock()

    def conclude(self, job_id: str, result: Outcome, *, why: str = "") -> None:
        """End a job with its one result: signed, in the journal, and on its way.

        When the disk is full, the reserve makes room. When that is not enough the disk is waited
        for, since the result exists nowhere else; only the end of the listener breaks that off,
        and the next one then finds the job without an end. A job that was ended meanwhile, or
        taken over by a later listener, keeps what it has.
        """
        record = self._journal.find(job_id)
        if record is None or record.result is not None:
            return
        cancel = self._journal.cancels.of_job(job_id)
        if cancel is not None:
            result = as_cancelled(result, cancel)
        data = as_kept(record.kind, result).to_json().encode("utf-8")
        sealed = None if record.iss == LOCAL_SENDER else self._seal(record, data)
        while not self._closed.is_set():
            try:
                if self._reserve.lend(
                    lambda: self._journal.finish(job_id, data, sealed=sealed, why=why)
                ):
                    self._crash.reach("after_done")
                    self._say("done", job=job_id, status=result.status.value)
                    self._wake.set()
                    for tell in self._told:
                        tell(job_id)
                else:
                    self._say("result_not_taken", job=job_id, reason="a later listener ended it")
                return
            except (Unavailable, CouldNotCheck) as error:
                self._say("journal_unavailable", job=job_id, reason=error.message)
                self._clock.wait(self._closed, _JOURNAL_PAUSE_S)

    def on_end(self, act: Callable[[str], None]) -> None:
        """Call `act` with the id of each job that ends from here on, when its result is on disk."""
        self._told.append(act)

    def sealed(self, record: JobRecord) -> str | None:
        """Return the one signed envelope of a result; None when there is no result, or no key to
        sign it with."""
        if record.sealed or record.result is None:
            return record.sealed
        sealed = self._seal(record, record.result)
        return None if sealed is None else self._journal.keep_sealed(record.jti, sealed)

    def publish(self, record: JobRecord) -> None:
        """Deliver one result now, again if need be. Raises when the broker is away."""
        if self._deliver(record):
            self._mark([record.jti])

    def _deliver(self, record: JobRecord) -> bool:
        """Deliver one result; say whether the sender's side holds it now. Raises as `publish`."""
        sealed = self.sealed(record)
        if record.result is None or sealed is None:
            return False
        status = read_outcome(record.kind, record.result).status.value
        self._crash.reach("before_publish")
        if self._board.deliver(record.jti, sealed, status):
            self._crash.reach("after_stored")
            return True
        stored = self._queue.store_result(record.jti, sealed)
        self._crash.reach("after_stored")
        if stored is StoredAs.OTHER:
            self._say("another_result_was_there", job=record.jti)
        self._board.show_done(record.jti, status)
        return True

    def _mark(self, job_ids: Sequence[str]) -> None:
        """Note what was delivered, and say what of it is news: after all that is shown, so that a
        crash in between repeats it, and shows nothing stale for ever."""
        news = self._journal.mark_published(*job_ids)
        self._crash.reach("after_published")
        for job_id in news:
            self._say("published", job=job_id)

    def is_stored(self, job_id: str) -> bool:
        """Say whether the broker holds something under a job's result. Raises when it is away."""
        return bool(self._queue.result_texts(job_id))

    def deliver_all(self) -> bool:
        """Deliver what is due; say whether nothing is left because of the broker or the disk. One
        thread at a time: the last delivery of a drain waits for the one under way."""
        with self._delivering:
            return self._deliver_all()

    def _deliver_all(self) -> bool:
        try:
            self._deliver_due()
        except (RedisError, Unavailable, CouldNotCheck):
            if not self._away:
                self._away = True
                self._say("results_wait", reason="the broker is away; they are kept in the journal")
            return False
        if self._away:
            self._away = False
            self._say("results_delivered")
        return True

    def _deliver_due(self) -> None:
        """Deliver what is due, and what becomes due right behind it, then mark all of it in one
        commit. What a crash leaves unmarked is delivered once more, which changes nothing."""
        unmarked: list[str] = []
        try:
            while True:
                self._wake.clear()
                found = False
                for record in self._journal.unpublished(besides=unmarked):
                    found = True
                    if self._deliver(record):
                        unmarked.append(record.jti)
                    if len(unmarked) >= _MARKED_MAX:
                        self._mark(unmarked)
                        unmarked.clear()
                if not found or not self._wake.wait(_MORE_WITHIN_S):
                    return
        finally:
            if unmarked:
                self._mark(unmarked)

    def run(self, stop: threading.Event) -> None:
        """Deliver until `stop` is set, with growing pauses while the broker is away."""
        pause = _FIRST_PAUSE_S
        while not stop.is_set():
            self._wake.clear()
            self._reserve.hold()  # again, once there is room
            if self.deliver_all():
                pause = _FIRST_PAUSE_S
                if not stop.is_set():  # the wake of an end may have been taken for one of a result
                    self._wake.wait(_IDLE_S)
            else:
                self._clock.wait(stop, pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    @property
    def is_closed(self) -> bool:
        """Say whether no disk is waited for any more."""
        return self._closed.is_set()

    def close(self) -> None:
        """Wait for no disk any more."""
        self._closed.set()

    def wake(self) -> None:
        """Make `run` look now."""
        self._wake.set()

    def _seal(self, record: JobRecord, result: bytes) -> str | None:
        """Return the signed envelope, None when there is no key to answer this sender with."""
        try:
            signer = self._keyring.result_signer(record.iss, job_kid=record.facts.get("kid"))
        except (KeysRefused, CouldNotCheck) as error:
            self._say("result_cannot_be_signed", job=record.jti, reason=error.message)
            return None
        now = self._clock.wall()
        return seal_result(record, result, signer, host=self._keyring.host, now=now)
