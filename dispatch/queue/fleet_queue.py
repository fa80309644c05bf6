"""Jobs in: the shapes of `contracts.naming` in Redis, and the class that both sides hold.

Everything that belongs to one enqueue is one transaction, so a broken connection leaves all of it
or nothing. The RQ job carries our entry's name and one string; RQ's own deadlines, retries and
callbacks stay unused, since nothing signs them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from redis.exceptions import ConnectionError as ConnectionBroke
from redis.exceptions import ResponseError, WatchError

from contracts import naming
from contracts.clock import Clock
from contracts.errors import Unavailable
from contracts.ids import checked_job_id
from dispatch.queue.board import Board
from dispatch.queue.bounded_reads import is_wrong_type
from dispatch.queue.control_box import ControlBox
from dispatch.queue.link import connect, translated
from dispatch.queue.packed_jobs import Outgoing, Packed, pack_jobs, rq_key, transact
from dispatch.queue.result_store import ResultStore
from dispatch.queue.watched_reads import watch_and_read
from dispatch.queue.whereabouts import JobFinder, Place

_PUSH_ATTEMPTS: Final = 5
_TRIM_EVERY_S: Final = 60.0  # of two weeks


class Pushed(StrEnum):
    """What a push found."""

    QUEUED = "queued"
    ALREADY_THERE = "already_there"  # queued before, taken or running: nothing was pushed
    FINISHED = "finished"  # a result or a receipt is there: nothing was pushed
    # A host may have started it, and the broker lost its memory of that: nothing was pushed.
    CLAIM_UNKNOWN = "claim_unknown"
    UNKNOWN = "unknown"  # of many: the broker went away before it said whether it has it
    ACCEPTED = "accepted"  # over HTTP: it is on the host's disk


class FleetQueue(ResultStore, JobFinder, ControlBox, Board):
    """The broker as both sides see it. Safe to use from threads."""

    _trimmed_at = -math.inf  # when a push last took old jobs out of the list for people

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

    def push_fresh(self, jobs: Sequence[Outgoing]) -> list[Pushed]:
        """Queue jobs whose ids were made by this call's caller and are known to nobody else, all or
        none, in one round trip: there is nothing to look for under keys that nobody knows.

        Raises what `push_all` raises. When the connection breaks, nobody knows whether they came:
        then `push_all` looks.
        """
        for job in jobs:
            checked_job_id(job.job_id)
        with translated(self.url):
            self._check_queues({job.queue_name for job in jobs})
            packed = self._packed(jobs, over=False)
            pool = self.connection.connection_pool
            try:
                connection = pool.get_connection()
                try:
                    answers = transact(connection, packed)
                finally:
                    pool.release(connection)
            except (ConnectionBroke, WatchError):
                return self.push_all(jobs)
            self._check_pushed(jobs, packed, answers)
        return [Pushed.QUEUED] * len(jobs)

    def _packed(self, jobs: Sequence[Outgoing], *, over: bool) -> Packed:
        now = self._clock.wall()
        trims = not 0 <= now - self._trimmed_at < _TRIM_EVERY_S
        self._trimmed_at = now if trims else self._trimmed_at
        return pack_jobs(jobs, now=now, over=over, trims=trims)

    def _check_queues(self, names: Collection[str]) -> None:
        """Look at several queues before a push into all of them; one alone fails by itself."""
        if len(names) < 2:
            return
        with self.connection.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.type(naming.rq_list(name))
            kinds = pipe.execute()
        _check_kinds(kinds)

    def _push_watched(self, pipe: Any, jobs: Sequence[Outgoing]) -> list[Pushed]:
        keys = [naming.job_key(job.job_id) for job in jobs]
        keys += [naming.result_key(job.job_id) for job in jobs]
        found = self._watch_found(pipe, keys, jobs)
        new = [job for job, state in zip(jobs, found, strict=True) if state is Pushed.QUEUED]
        if new:
            packed = self._packed(new, over=True)
            self._check_pushed(new, packed, _transact_watched(pipe, packed))
        return found

    def _check_pushed(self, jobs: Sequence[Outgoing], packed: Packed, answers: list[Any]) -> None:
        # A transaction is not undone when one of its commands fails. Where the job is only listed
        # for people, another type is not our business; a queue that just became one is.
        failed = [item for item in answers if isinstance(item, Exception)]
        if not all(map(is_wrong_type, failed)) or any(answers[i] in failed for i in packed.pushes):
            ids = [job.job_id for job in jobs]
            self.connection.unlink(*map(naming.job_key, ids), *map(rq_key, ids))
            raise failed[0]

    def _push_again_watched(self, pipe: Any, job: Outgoing, hosts: Sequence[str]) -> Pushed:
        pipe.watch(naming.job_key(job.job_id), naming.result_key(job.job_id))
        where = self.whereabouts(job.job_id, job.queue_name, hosts)
        if not where.is_lost:
            return Pushed.FINISHED if where.place is Place.FINISHED else Pushed.ALREADY_THERE
        packed = self._packed([job], over=True)
        answers = _transact_watched(pipe, packed)
        for place in packed.pushes:
            if isinstance(answers[place], Exception):
                raise answers[place]
        return Pushed.QUEUED

    def _watch_found(
        self, pipe: Any, watched: Sequence[str], jobs: Sequence[Outgoing]
    ) -> list[Pushed]:
        """Watch keys, and return what is there of each job."""
        reads: list[tuple[str, str]] = []
        for job in jobs:
            reads.append(("EXISTS", naming.result_key(job.job_id)))
            reads.append(("EXISTS", naming.job_key(job.job_id)))
        queues = dict.fromkeys(job.queue_name for job in jobs)
        reads += [("TYPE", naming.rq_list(name)) for name in queues]
        answers = watch_and_read(pipe, watched, reads)
        states = answers[: 2 * len(jobs)]
        _check_kinds(answers[2 * len(jobs) :])
        return [_state(*pair) for pair in zip(states[::2], states[1::2], strict=True)]


def _transact_watched(pipe: Any, packed: Packed) -> list[Any]:
    """Do a transaction on the connection that watches."""
    pipe.watching = False  # its end is the watch's end, however it ends
    return transact(pipe.connection, packed)


def _check_kinds(kinds: Sequence[object]) -> None:
    if any(kind not in (b"list", b"none") for kind in kinds):
        raise ResponseError("WRONGTYPE of a queue")


def _state(has_end: int, is_known: int) -> Pushed:
    if has_end:
        return Pushed.FINISHED
    return Pushed.ALREADY_THERE if is_known else Pushed.QUEUED
