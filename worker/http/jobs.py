"""Taking posted jobs: verified, then one at a time for each id, then a slot, then the claim.

The answer is given when the claim is on disk and not before, so that what was accepted survives a
crash of this process in the next moment. No free slot: nothing is taken, and the sender comes again
with the same bytes. A job that this host has already is told so without a slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from redis.exceptions import RedisError

from contracts.delivery import DeliveryCode
from contracts.errors import CouldNotCheck, Unavailable
from worker.announcer import Say
from worker.entry import RunEnvelope
from worker.http.bounds import CLAIM_WAIT_S, SLOT_WAIT_S
from worker.http.posted_job import PostedJob
from worker.receipts import Receipts
from worker.slots import Slots
from worker.verification import VerifiedJob


class PostedJobs:
    """The jobs that are posted to one host; called from several threads."""

    def __init__(
        self,
        entry: RunEnvelope,
        receipts: Receipts,
        slots: Slots,
        *,
        is_draining: Callable[[], bool],
        say: Say,
    ) -> None:
        self._entry = entry
        self._receipts = receipts
        self._slots = slots
        self._is_draining = is_draining
        self._say = say
        self._lock = threading.Lock()
        self._turns: dict[str, tuple[threading.Lock, int]] = {}

    def take(self, text: bytes) -> PostedJob:
        """Take the job in the envelope `text`, if it may be taken now; return what to answer."""
        posted = PostedJob(self._say)
        try:
            job = self._entry.verified(text, posted)
            if job is not None and self._can_answer(job, posted):
                self._take(job, posted)
        except (RedisError, Unavailable, CouldNotCheck) as error:
            self._say("postponed", door=posted.queue_name, reason=type(error).__name__)
            posted.put_off()
        return posted

    def _take(self, job: VerifiedJob, posted: PostedJob) -> None:
        job_id = job.claims.jti
        with self._turn(job_id):
            if self._entry.is_known(job, posted):
                return
            if self._is_draining() or not self._slots.take(SLOT_WAIT_S):
                posted.put_off()
                return
            if self._is_draining():  # since the wait: nothing new starts beside the drain
                self._slots.give_back()
                posted.put_off()
                return
            try:
                self._slots.start(job_id, partial(self._perform, job, posted))
            except RuntimeError:  # no thread can be started: the slot is free again
                self._slots.give_back()
                raise
            posted.wait(CLAIM_WAIT_S)

    def _perform(self, job: VerifiedJob, posted: PostedJob) -> None:
        """The top of a job's thread: whatever happens, the peer has an answer and a claimed job an
        end."""
        job_id = job.claims.jti
        try:
            self._entry.take(job, posted)
        except (RedisError, Unavailable, CouldNotCheck) as error:
            self._say("postponed", job=job_id, reason=type(error).__name__)
            if posted.is_accepted:
                self._entry.give_up(job_id, f"the listener failed: {type(error).__name__}")
        except Exception as error:  # noqa: BLE001 - a mistake of ours ends this job, not the door
            self._say("listener_failed", job=job_id, reason=type(error).__name__)
            self._entry.give_up(job_id, f"the listener failed: {type(error).__name__}")
        finally:
            posted.put_off()  # for one that was answered this changes nothing

    def _can_answer(self, job: VerifiedJob, posted: PostedJob) -> bool:
        """Say whether we hold a key to answer this sender with; one whom we could not tell that his
        job was accepted is turned away before it is."""
        if self._receipts.of_job(job, DeliveryCode.ACCEPTED) is None:
            posted.turn_away("no_key_to_answer_with")
            return False
        return True

    @contextmanager
    def _turn(self, job_id: str) -> Iterator[None]:
        """Let messages of one job in one after the other, so that the second finds the first one's
        claim and needs no slot."""
        with self._lock:
            turn, waiting = self._turns.get(job_id, (threading.Lock(), 0))
            self._turns[job_id] = (turn, waiting + 1)
        try:
            with turn:
                yield
        finally:
            with self._lock:
                turn, waiting = self._turns[job_id]
                if waiting == 1:
                    del self._turns[job_id]
                else:
                    self._turns[job_id] = (turn, waiting - 1)
