"""Jobs in: the shapes of `contracts.naming` in Redis, and the class that both sides hold.

Everything that belongs to one enqueue is one transaction, so a broken connection leaves all of it
or nothing. The RQ job carries our entry's name and one string; RQ's own deadlines, retries and
callbacks stay unused, since nothing signs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from redis.exceptions import ResponseError, WatchError

from contracts import limits, naming
from contracts.clock import Clock
from contracts.errors import Unavailable
from contracts.ids import checked_job_id
from dispatch.queue.board import SHOWN_TTL_S, Board
from dispatch.queue.bounded_reads import is_wrong_type
from dispatch.queue.control_box import ControlBox
from dispatch.queue.link import connect, translated
from dispatch.queue.result_store import ResultStore
from dispatch.queue.watched_reads import watch_and_read
from dispatch.queue.whereabouts import JobFinder, Place

_DAY_S: Final = 86_400
# RQ's hash goes when no host could accept its envelope any more.
_STORED_JOB_TTL_S: Final = limits.JOB_TTL_MAX_S + _DAY_S
_RQ_RESULT_TTL_S: Final = 60  # RQ's own result is only a pointer
_PUSH_ATTEMPTS: Final = 5


class Pushed(StrEnum):
    """What a push found."""

    QUEUED = "queued"
    ALREADY_THERE = "already_there"  # queued before, taken or running: nothing was pushed
    FINISHED = "finished"  # a result or a receipt is there: nothing was pushed
    # A host may have started it, and the broker lost its memory of that: nothing was pushed.
    CLAIM_UNKNOWN = "claim_unknown"
    ACCEPTED = "accepted"  # over HTTP: it is on the host's disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One signed job on its way: the envelope, its queue and what is shown of it (all text)."""

    job_id: str
    queue_name: str
    envelope_text: str = field(repr=False)
    shown: Mapping[str, str] = field(default_factory=dict)


class FleetQueue(ResultStore, JobFinder, ControlBox, Board):
    """The broker as both sides see it. Safe to use from threads."""

    @classmethod
    def connect(cls, url: str, clock: Clock | None = None) -> FleetQueue:
        """Return the queue at `url`. Nothing is sent yet. Raises InvalidRequest for a bad URL."""
        return cls(connect(url), url, clock)

    def push(
        self, envelope_text: str, job_id: str, queue_name: str, shown: Mapping[str, str]
    ) -> Pushed:
        """Queue one job; see `push_all`."""
        outgoing = Outgoing(
            job_id=job_id, queue_name=queue_name, envelope_text=envelope_text, shown=shown
        )
        return self.push_all([outgoing])[0]

    def push_all(self, jobs: Sequence[Outgoing]) -> list[Pushed]:
        """Queue all of `jobs` in one transaction, ring their bells, say what became of each.

        A job id that is there already is not pushed again, so repeating a push is harmless.
        Raises Unavailable when the broker is away or full; then nothing is queued.
        """
        for job in jobs:
            checked_job_id(job.job_id)
        with translated(self.url):
            for _ in range(_PUSH_ATTEMPTS):
                with self.connection.pipeline(transaction=True) as pipe:
                    try:
                        return self._push_watched(pipe, jobs)
                    except WatchError:
                        continue  # somebody wrote, or the connection broke: look again
        raise Unavailable("the queue changed under every attempt to push", remedy="try again")

    def push_again(self, job: Outgoing, hosts: Sequence[str]) -> Pushed:
        """Queue a job once more unless it is finished, claimed, refused or in a list already.

        `hosts` are the names of all who may have taken it. A second entry of it would be harmless,
        since claims and journals know it; so two senders at once are held apart by its hash alone.
        """
        with translated(self.url):
            for _ in range(_PUSH_ATTEMPTS):
                with self.connection.pipeline(transaction=True) as pipe:
                    try:
                        return self._push_again_watched(pipe, job, hosts)
                    except WatchError:
                        continue
        raise Unavailable("the queue changed under every attempt to push", remedy="try again")

    def ring(self, queue_name: str) -> None:
        """Wake the listeners of a queue."""
        with translated(self.url):
            self.connection.publish(naming.bell_channel(queue_name), b"1")

    def _push_watched(self, pipe: Any, jobs: Sequence[Outgoing]) -> list[Pushed]:
        keys = [naming.job_key(job.job_id) for job in jobs]
        keys += [naming.result_key(job.job_id) for job in jobs]
        found = self._watch_found(pipe, keys, jobs)
        pipe.multi()
        new = [job for job, state in zip(jobs, found, strict=True) if state is Pushed.QUEUED]
        pushes = [self._write_job(pipe, job) for job in new]
        # A transaction is not undone when one of its commands fails. Where the job is only listed
        # for people, another type is not our business; a queue that just became one is.
        answers = pipe.execute(raise_on_error=False)
        failed = [item for item in answers if isinstance(item, Exception)]
        if not all(map(is_wrong_type, failed)) or any(answers[i] in failed for i in pushes):
            self.connection.unlink(*keys[: len(jobs)])
            raise failed[0]
        return found

    def _push_again_watched(self, pipe: Any, job: Outgoing, hosts: Sequence[str]) -> Pushed:
        pipe.watch(naming.job_key(job.job_id), naming.result_key(job.job_id))
        where = self.whereabouts(job.job_id, job.queue_name, hosts)
        if not where.is_lost:
            return Pushed.FINISHED if where.place is Place.FINISHED else Pushed.ALREADY_THERE
        pipe.multi()
        push = self._write_job(pipe, job)
        answers = pipe.execute(raise_on_error=False)
        if isinstance(answers[push], Exception):
            raise answers[push]
        return Pushed.QUEUED

    def _watch_found(
        self, pipe: Any, watched: Sequence[str], jobs: Sequence[Outgoing]
    ) -> list[Pushed]:
        """Watch keys, and return what is there of each job."""
        reads: list[tuple[str, str]] = []
        for job in jobs:
            reads.append(("EXISTS", naming.result_key(job.job_id)))
            reads.append(("EXISTS", naming.job_key(job.job_id)))
            reads.append(("TYPE", naming.rq_list(job.queue_name)))
        answers = watch_and_read(pipe, watched, reads)
        if any(kind not in (b"list", b"none") for kind in answers[2::3]):
            raise ResponseError("WRONGTYPE of a queue")
        return [_state(*pair) for pair in zip(answers[::3], answers[1::3], strict=True)]

    def _write_job(self, pipe: Any, job: Outgoing) -> int:
        """Add the commands of one job and return the place of the one that queues it."""
        from rq.job import (  # loaded here: rq is slow to import, and only a push needs it
            Job,
            JobStatus,
        )
        from rq.queue import Queue
        from rq.serializers import JSONSerializer

        now = self._clock.wall()
        rq_job = Job.create(
            naming.ENTRY_PATH,
            args=[job.envelope_text],
            connection=self.connection,
            serializer=JSONSerializer,
            id=job.job_id,
            origin=job.queue_name,
            status=JobStatus.QUEUED,
            description=f"fleet-dispatch job {job.job_id}",  # else RQ writes the whole call here
            timeout=-1,  # RQ's own deadline is off: ours is inside the signature
            result_ttl=_RQ_RESULT_TTL_S,
        )
        pipe.delete(rq_job.key)  # whatever somebody left there
        rq_job.save(pipeline=pipe)
        pipe.expire(rq_job.key, _STORED_JOB_TTL_S)
        pipe.sadd(Queue.redis_queues_keys, naming.rq_list(job.queue_name))
        push = len(pipe)
        pipe.rpush(naming.rq_list(job.queue_name), job.job_id)
        pipe.hset(naming.job_key(job.job_id), mapping={"jti": job.job_id, **job.shown})
        pipe.expire(naming.job_key(job.job_id), SHOWN_TTL_S)
        pipe.zadd(naming.jobs_index(), {job.job_id: now})
        pipe.zremrangebyscore(naming.jobs_index(), "-inf", now - SHOWN_TTL_S)
        pipe.publish(naming.bell_channel(job.queue_name), b"1")
        return push


def _state(has_end: int, is_known: int) -> Pushed:
    if has_end:
        return Pushed.FINISHED
    return Pushed.ALREADY_THERE if is_known else Pushed.QUEUED
