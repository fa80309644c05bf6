"""Taking a job of ours back: the wish on our own disk first, then the signed cancel at every door.

A job that provably no host had is taken out of its queue and ended by our own receipt. Every other
is ended by the host that has it, or meets it later: only that one knows what was done. The wish is
sent again until the job has an end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from contracts import limits
from contracts.clock import Clock
from contracts.errors import InvalidRequest, KeysRefused, Problem, Refused, Unavailable
from contracts.receipt_code import ReceiptCode
from dispatch.answers import Answers
from dispatch.hosts import HostView
from dispatch.known_hosts import known_hosts
from dispatch.queue import FleetQueue, TakenBack
from dispatch.sent import SentJob, SentJobs
from dispatch.sent_cancels import Wish
from validation.text import whole

_SIGN_AGAIN_S: Final = 3_600  # long before it ends, and after a key was rotated


class CancelState(StrEnum):
    """How far a cancel came."""

    FINISHED = "already_finished"  # the job had its end: nothing was done
    CANCELLED = "cancelled"  # taken back before any host had it, and ended by us
    CANCELLING = "cancelling"  # ordered: the end comes as the job's result
    KEPT = "kept"  # the broker is away: sent as soon as it is back


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What became of one cancel so far; `note` is for people."""

    job_id: str
    state: CancelState
    note: str = ""


class ControlDoor(Protocol):
    """Another way than the broker by which orders about a job come to its host."""

    def post_cancel(self, job: SentJob, text: str) -> bool:
        """Hand over a signed cancel; say whether this door leads to the job's host. Raises
        Unavailable when it does and nobody answers."""
        ...


class Cancelling:
    """The cancels of one sender."""

    def __init__(
        self,
        answers: Answers,
        queue: FleetQueue,
        sent: SentJobs,
        clock: Clock,
        *,
        doors: Sequence[ControlDoor] = (),
    ) -> None:
        self._answers = answers
        self._queue = queue
        self._sent = sent
        self._clock = clock
        self._doors = doors

    def cancel(self, job_id: str, why: str = "") -> Cancelled:
        """Take one of our jobs back, however far it has come; see `FleetClient.cancel`."""
        _check_why(why)
        job = self._answers.sent_job(job_id)
        if self._has_ended(job):
            return self._finished(job)
        wish = self._sent.cancels.keep(job_id, whole(why), now=self._clock.wall())
        try:
            return self.press(job, wish)
        except KeysRefused:
            raise
        except (Unavailable, Refused) as error:  # a refusal of a door is nobody's signed word
            note = f"{error.message}; kept here, and sent by the next wait, jobs or sweep"
            return Cancelled(job_id, CancelState.KEPT, note)

    def wish(self, job: SentJob) -> Wish | None:
        """Return our wish that `job` be ended, None when there is none."""
        return self._sent.cancels.find(job.job_id)

    def press(self, job: SentJob, wish: Wish, hosts: Sequence[HostView] | None = None) -> Cancelled:
        """Send a cancel, again if need be, and take the job out of its queue if nobody had it.

        Raises Unavailable when the broker is away.
        """
        text = self._signed(job, wish)
        if any(door.post_cancel(job, text) for door in self._doors):
            return Cancelled(job.job_id, CancelState.CANCELLING, "the host was told")
        known = known_hosts(self._answers.keyring, self._queue) if hosts is None else hosts
        names = [job.target] if job.target else [host.name for host in known]
        self._queue.put_cancel(job.job_id, text, names)
        if self._nobody_had(job):
            found = self._queue.take_back(job.job_id, job.queue_name, names)
            if found is TakenBack.OUT:
                self._answers.end(job, ReceiptCode.CANCELLED)
                return Cancelled(job.job_id, CancelState.CANCELLED, "no host had it")
            if found is TakenBack.FINISHED and self._has_ended(job):
                return self._finished(job)
        note = "the host that has it, or meets it, ends it; it never starts again"
        return Cancelled(job.job_id, CancelState.CANCELLING, note)

    def _signed(self, job: SentJob, wish: Wish) -> str:
        now = int(self._clock.wall())
        if wish.envelope and 0 <= now - wish.signed_at < _SIGN_AGAIN_S:
            return wish.envelope
        from dispatch.control_signing import sign_cancel

        text = sign_cancel(self._answers.keyring, job, wish.why, now=now)
        self._sent.cancels.keep_signed(job.job_id, text, at=now)
        return text

    def _nobody_had(self, job: SentJob) -> bool:
        """Say whether the broker remembers all that became of the job since its one push: then what
        is in its queue, and claimed by nobody, was never in a host's hands."""
        return not job.pushes and bool(job.broker) and job.broker == self._queue.data_mark()

    def _has_ended(self, job: SentJob) -> bool:
        try:
            return self._answers.result(job) is not None
        except (Unavailable, Refused):  # then nothing says so: the wish is kept all the same
            return False

    def _finished(self, job: SentJob) -> Cancelled:
        found = self._answers.kept(job)
        note = "" if found is None else f"it had ended already: {found.status.value}"
        return Cancelled(job.job_id, CancelState.FINISHED, note)


def _check_why(why: str) -> None:
    if len(why) > limits.WHY_MAX_CHARS:
        remedy = f"at most {limits.WHY_MAX_CHARS} characters"
        raise InvalidRequest([Problem("why", f"is {len(why)} characters", remedy)])
