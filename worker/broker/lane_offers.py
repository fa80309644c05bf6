"""A lane's job that this host does not do: offered to the others, ended when none is left.

Three reasons: nothing could be started here, nothing can be written down here, or this host holds
no key of the job's sender. Whether another host looks is all that Redis decides here; what a job is
was decided by its signature.
"""

from __future__ import annotations

import threading
from typing import Final

from contracts import naming
from contracts.errors import FleetError, Refused, Unavailable
from contracts.plain_result import Outcome
from validation.admission import refused_result
from worker.delivery import Delivery, Ending
from worker.entry_ports import EntryPorts
from worker.journal.schema import JobState
from worker.verification import VerifiedJob

_NO_KEY: Final = "holds no key of its sender"
_BUSY: Final = "as many jobs of its sender as the policy allows run here"
_JOURNAL_PAUSE_S: Final = 5.0


class LaneOffers:
    """The offers of one host."""

    def __init__(self, ports: EntryPorts) -> None:
        self._ports = ports
        self._never = threading.Event()

    def decline(self, job: VerifiedJob, result: Outcome, delivery: Delivery) -> Ending:
        """Note why nothing was started here, and offer the job to the lane's other hosts."""
        reason = result.risks[0].message if result.risks else result.summary
        self._write_down(job.claims.jti, reason)
        self._ports.say("declined", job=job.claims.jti, lane=job.claims.lane)
        return self.offer(job, delivery, ring=True)

    def offer(self, job: VerifiedJob, delivery: Delivery, *, ring: bool) -> Ending:
        """Give a declined job back to its lane, or end it when every live host has declined."""
        ports, claims = self._ports, job.claims
        reason = ports.journal.history(claims.jti)[-1].why
        ports.lanes.refuse(claims.jti, reason)
        if ports.lanes.undecided(claims.jti, claims.lane):
            ports.board.show(claims.jti, "queued", f"{ports.settings.host} declined: {reason}")
            return self._pass_on(claims.jti, claims.lane, delivery, ring=ring)
        refusals = ports.lanes.refusals(claims.jti)
        said = "; ".join(f"{item.host}: {item.reason}" for item in refusals)
        refusal = Refused(
            f"every live host of lane {claims.lane} declined: {said}",
            code="lane_declined",
            remedy="mend one of these, or address a host that has the repository",
        )
        host = ports.settings.host
        result = refused_result(claims.payload, refusal, job_id=claims.jti, host=host)
        ports.outbox.conclude(claims.jti, result)
        delivery.settle()
        return Ending.SETTLED

    def leave(self, job: VerifiedJob, delivery: Delivery, error: FleetError) -> Ending:
        """Give a job that could not be claimed here back to its lane, if another host serves it.

        Raises `error` when this is the lane's only one: then the job comes again here.
        """
        ports, claims = self._ports, job.claims
        ports.lanes.release(claims.jti)
        if not ports.lanes.undecided(claims.jti, claims.lane):
            raise error
        ports.say("left_to_others", job=claims.jti, lane=claims.lane, reason=error.kind)
        return self._pass_on(claims.jti, claims.lane, delivery, ring=True)

    def wait(self, job: VerifiedJob, delivery: Delivery) -> Ending:
        """Put a job whose sender has all its seats taken here back where it came from: its lane's
        other hosts may have room, and this one looks at it again.

        Raises Unavailable for one that stands in no queue: its sender keeps it.
        """
        ports, claims = self._ports, job.claims
        if not delivery.is_queued:
            raise Unavailable(_BUSY, remedy="send it again later")
        ports.board.show(claims.jti, "queued", f"{ports.settings.host}: {_BUSY}")
        if job.is_for_a_lane:
            delivery.pass_on(lane=claims.lane, ring=True)
        else:
            delivery.put_back()
        return Ending.PASSED_ON

    def leave_unread(self, job_id: str, delivery: Delivery) -> Ending | None:
        """Leave what a sender signed that this host does not know to a host that may know him.

        None when it came over no lane's queue, or when every live host has seen it: nobody's.
        """
        ports = self._ports
        lanes = [x for x in ports.settings.lanes if naming.lane_queue(x) == delivery.queue_name]
        if not lanes:
            return None
        host = ports.settings.host
        is_new = host not in {item.host for item in ports.lanes.refusals(job_id)}
        ports.lanes.refuse(job_id, _NO_KEY)
        if not ports.lanes.undecided(job_id, lanes[0]):
            return None
        if is_new:
            ports.say("left_to_others", job=job_id, lane=lanes[0], reason="unknown_key")
        return self._pass_on(job_id, lanes[0], delivery, ring=is_new)

    def _pass_on(self, job_id: str, lane: str, delivery: Delivery, *, ring: bool) -> Ending:
        self._ports.lanes.release(job_id)
        delivery.pass_on(lane=lane, ring=ring)
        return Ending.PASSED_ON

    def _write_down(self, job_id: str, reason: str) -> None:
        """Record the refusal. A disk that is full is waited for: without that line the job would
        look like one that runs here, and nobody would ever end it."""
        ports = self._ports
        while not ports.outbox.is_closed:
            try:
                ports.reserve.lend(
                    lambda: ports.journal.record(job_id, JobState.REFUSED, why=reason)
                )
                return
            except Unavailable as error:
                ports.say("journal_unavailable", job=job_id, reason=error.message)
                ports.clock.wait(self._never, _JOURNAL_PAUSE_S)
        raise Unavailable("the listener ends before its journal could be written")
