"""RQ's job, queue and worker, closed: nothing runs but our one entry, whatever stands in Redis.

Whoever can write Redis chooses every byte read here. So one field of a job is read, bounded before
it travels and again while it unpacks; it must be a call of our entry with exactly one string, which
is compared as text and never imported. Callbacks, webhooks, repeats, retries, dependencies, meta,
timeouts and commands of RQ are not even read. The entry itself believes only signatures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias, cast

from redis import Redis
from redis.exceptions import ResponseError
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.serializers import JSONSerializer
from rq.worker import BaseWorker

from contracts import limits, naming
from contracts.ids import is_job_id
from dispatch.queue.bounded_reads import is_wrong_type, read_items
from worker.broker.packed_call import Poisoned, inflate, read_call
from worker.broker.queue_scripts import DROP_BAD, GIVE_BACK, TAKE

Entry: TypeAlias = Callable[[str], object]

_ID_MAX_BYTES: Final = 64
_WHOLE: Final = 3  # words of an answer, behind the place, when the job was read
_TAKEN_MAX: Final = 1_000  # a host takes 64 at a time at most


class SealedJob(Job):
    """An RQ job of which only the one string survives that it hands to our entry."""

    entry: Entry | None = None

    def restore(self, raw_data: Any) -> None:
        """Take over `data` and nothing else. Raises Poisoned when it is not a call of ours."""
        packed = raw_data.get(b"data") if isinstance(raw_data, dict) else None
        if not isinstance(packed, bytes):
            raise Poisoned("no_data", self.id)
        self.data = inflate(packed, self.id)
        self._deserialize_data()
        self._status = JobStatus.QUEUED

    def _deserialize_data(self) -> None:
        """Read the call; RQ's own reading of `func_name`, `args` and the rest leads here too."""
        call = read_call(self.data, self.id)
        self._func_name, self._instance, self._args, self._kwargs = cast("tuple[Any, ...]", call)

    def perform(self) -> object:
        """Call our entry with the job's one string, and return what it returns.

        Raises Poisoned for a job that no worker of ours has taken.
        """
        if self.entry is None:
            raise Poisoned("no_entry", self.id)
        text = cast("list[str]", self.args)[0]
        return self.entry(text)

    @property
    def func(self) -> NoReturn:
        """Refuse: RQ would import what Redis names."""
        raise Poisoned("import_by_name", self.id)

    def _execute(self) -> object:
        return self.perform()


class SealedQueue(Queue):
    """An RQ queue that knows no job class and no serializer but ours."""

    job_class = SealedJob

    def __init__(self, name: str, connection: Redis) -> None:
        super().__init__(name, connection=connection, job_class=SealedJob, serializer=_serializer())


@dataclass(frozen=True, slots=True)
class Found:
    """What a look took from the queue of `worker`, as the broker told it: to be opened."""

    worker: SealedWorker
    answer: Sequence[Any] = field(repr=False)


class SealedWorker(BaseWorker):
    """One host's hand on one queue. It has no loop, no signals, no scheduler and no maintenance of
    RQ's, and subscribes to no commands: the listener asks it for one job at a time."""

    job_class = SealedJob
    queue_class = cast("type[Queue]", SealedQueue)  # its constructor takes less, on purpose

    def __init__(self, queue: str, host: str, connection: Redis) -> None:
        """Serve the RQ queue named `queue` for `host`. Does not touch Redis."""
        super().__init__(
            [SealedQueue(queue, connection)],
            name=f"{host}.{queue}",
            connection=connection,
            job_class=SealedJob,
            queue_class=cast("type[Queue]", SealedQueue),
            serializer=_serializer(),
            prepare_for_work=False,
            log_job_description=False,
        )
        self.queue_name = queue
        self.queue_key = naming.rq_list(queue)
        self.taken_key = naming.taken_list(queue, host)

    def take(self, entry_for: Callable[[str], Entry]) -> SealedJob | None:
        """Move the next job to this host's list of taken ones and return it; None when none waits.

        See `find_first` and `opened`.
        """
        found = find_first([self])
        return None if found is None else self.opened(found, entry_for)

    def opened(self, found: Found, entry_for: Callable[[str], Entry]) -> SealedJob:
        """Return the job that was found in this queue.

        `entry_for(job_id)` gives the entry that the job will call. Raises Poisoned for what can be
        no job of ours, and redis errors when Redis is away; the queue goes on after either.
        """
        _place, *told = found.answer
        if not told:
            if self.connection.type(self.taken_key) not in (b"list", b"none"):
                self.connection.unlink(self.taken_key)  # no list: nothing of ours is in it
            raise Poisoned("queue_unreadable")
        job_id = _checked_id(told[0])
        if job_id is None:
            if isinstance(told[0], bytes):
                self.connection.lrem(self.taken_key, -1, cast("str", told[0]))
            raise Poisoned("bad_id")
        if len(told) < _WHOLE:
            raise Poisoned("not_a_hash" if len(told) == 1 else "too_large", job_id)
        job = SealedJob(job_id, connection=self.connection, serializer=_serializer())
        job.restore({b"data": told[1]})
        job.entry = entry_for(job_id)
        return job

    def settle(self, job_id: str) -> None:
        """Forget that `job_id` was taken: from here on the journal, or somebody else, has it."""
        self.connection.lrem(self.taken_key, -1, job_id)

    def give_back(self, job_id: str, *, to: str | None = None, first: bool = False) -> None:
        """Put a taken job back into this queue, or into the queue named `to`, in one step."""
        target = self.queue_key if to is None else naming.rq_list(to)
        push = "LPUSH" if first else "RPUSH"
        self.connection.eval(GIVE_BACK, 2, self.taken_key, target, job_id, push)

    def taken(self) -> list[str]:
        """Return the ids in this host's list of taken ones, oldest first; bad ones are dropped."""
        try:
            self.connection.eval(DROP_BAD, 1, self.taken_key, str(_ID_MAX_BYTES))
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self.connection.unlink(self.taken_key)
        return [
            text
            for text in read_items(self.connection, self.taken_key, _TAKEN_MAX)
            if is_job_id(text)
        ]

    def execute_job(self, job: Job, queue: Queue) -> None:  # noqa: ARG002 - RQ's signature
        """Perform a job that `take` returned; every other is refused with Poisoned."""
        if not isinstance(job, SealedJob):
            raise Poisoned("foreign_job")
        job.perform()

    def work(self, *_arguments: object, **_options: object) -> NoReturn:
        """Refuse: RQ's loop obeys what stands in Redis."""
        raise Poisoned("foreign_loop")

    def subscribe(self) -> None:
        """Subscribe to nothing: RQ's commands are unsigned."""

    def clean_registries(self) -> None:
        """Clean nothing: RQ's maintenance runs callbacks of what it finds in registries."""

    def run_maintenance_tasks(self) -> None:
        """Run nothing, for the same reason."""

    def check_for_suspension(self, burst: bool) -> None:  # noqa: FBT001 - RQ's signature
        """Look at no flag: whoever writes Redis could stop every listener with it."""

    def _set_connection(self, connection: Redis) -> Redis:
        """Leave the connection's timeouts alone: RQ would wait minutes on a Redis that hangs."""
        return connection


def find_first(workers: Sequence[SealedWorker]) -> Found | None:
    """Take the first job from the first of these workers' queues that has one, in one round trip;
    None when none waits. They share one connection.

    Raises redis errors when Redis is away, and for its own trouble (no permission, no memory),
    which says nothing about a job.
    """
    keys = [key for worker in workers for key in (worker.queue_key, worker.taken_key)]
    most = (str(_ID_MAX_BYTES), str(limits.STORED_JOB_MAX_BYTES))
    prefix = SealedJob.redis_job_namespace_prefix
    answer: Any = workers[0].connection.eval(TAKE, len(keys), *keys, *most, prefix)
    return None if answer is None else Found(workers[int(answer[0])], answer)


def _serializer() -> Any:
    return JSONSerializer  # a class with two static methods, which RQ's types call an object


def _checked_id(entry: bytes | int) -> str | None:
    if isinstance(entry, int):
        return None
    text = entry.decode("ascii", "replace")
    return text if is_job_id(text) else None
