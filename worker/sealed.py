"""RQ's job, queue and worker, closed: nothing runs but our one entry, whatever stands in Redis.

Whoever can write Redis chooses every byte read here. So one field of a job is read, bounded before
it travels and again while it unpacks; it must be a call of our entry with exactly one string, which
is compared as text and never imported. Callbacks, webhooks, repeats, retries, dependencies, meta,
timeouts and commands of RQ are not even read. The entry itself believes only signatures.
"""

from __future__ import annotations

from collections.abc import Callable
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

Entry: TypeAlias = Callable[[str], object]

# Both scripts are atomic: nothing can be swapped between the look at a size and the read.
_TAKE: Final = """
local id = redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT')
if not id then return false end
if #id > tonumber(ARGV[1]) then
    redis.call('RPOP', KEYS[2])
    return 0
end
return id
"""
_READ: Final = """
local size = redis.call('HSTRLEN', KEYS[1], 'data')
if size > tonumber(ARGV[1]) then return size end
return redis.call('HGET', KEYS[1], 'data')
"""
# The push comes first: when it fails, the id still stands in the list of taken ones. What was just
# taken stands at the end of that list, what is left over at its head: nobody searches a long one.
_GIVE_BACK: Final = """
redis.call(ARGV[2], KEYS[2], ARGV[1])
return redis.call('LREM', KEYS[1], ARGV[2] == 'LPUSH' and 1 or -1, ARGV[1])
"""
_DROP_BAD: Final = """
local bad = {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, 999)) do
    if not string.match(id, '^[a-z0-9]+$') or #id > tonumber(ARGV[1]) then bad[#bad + 1] = id end
end
for _, id in ipairs(bad) do redis.call('LREM', KEYS[1], 1, id) end
return #bad
"""
_ID_MAX_BYTES: Final = 64
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

        `entry_for(job_id)` gives the entry that the job will call. Raises Poisoned for what can be
        no job of ours, and redis errors when Redis is away; the queue goes on after either.
        """
        try:
            moved = self._script(_TAKE, [self.queue_key, self.taken_key], _ID_MAX_BYTES)
        except ResponseError as error:
            if is_wrong_type(error) and self.connection.type(self.taken_key) != b"list":
                self.connection.unlink(self.taken_key)  # no list: nothing of ours is in it
            raise _poisoned(error, "queue_unreadable") from error
        if moved is None:
            return None
        job_id = _checked_id(moved)
        if job_id is None:
            if isinstance(moved, bytes):
                self.connection.lrem(self.taken_key, -1, cast("str", moved))
            raise Poisoned("bad_id")
        job = SealedJob(job_id, connection=self.connection, serializer=_serializer())
        job.restore({b"data": self._read(job_id)})
        job.entry = entry_for(job_id)
        return job

    def settle(self, job_id: str) -> None:
        """Forget that `job_id` was taken: from here on the journal, or somebody else, has it."""
        self.connection.lrem(self.taken_key, -1, job_id)

    def give_back(self, job_id: str, *, to: str | None = None, first: bool = False) -> None:
        """Put a taken job back into this queue, or into the queue named `to`, in one step."""
        target = self.queue_key if to is None else naming.rq_list(to)
        push = "LPUSH" if first else "RPUSH"
        self.connection.eval(_GIVE_BACK, 2, self.taken_key, target, job_id, push)

    def taken(self) -> list[str]:
        """Return the ids in this host's list of taken ones, oldest first; bad ones are dropped."""
        try:
            self.connection.eval(_DROP_BAD, 1, self.taken_key, str(_ID_MAX_BYTES))
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

    def _read(self, job_id: str) -> bytes | None:
        try:
            found = self._script(_READ, [SealedJob.key_for(job_id)], limits.STORED_JOB_MAX_BYTES)
        except ResponseError as error:
            raise _poisoned(error, "not_a_hash", job_id) from error
        if isinstance(found, int):
            raise Poisoned("too_large", job_id)
        return found

    def _script(self, script: str, keys: list[str], argument: int) -> bytes | int | None:
        answer = self.connection.eval(script, len(keys), *keys, str(argument))
        return cast("bytes | int | None", answer)


def _poisoned(error: ResponseError, reason: str, job_id: str = "") -> Exception:
    """Return what to raise: a key of another type is poison, every other answer is Redis's own
    trouble (no permission, no memory) and says nothing about the job."""
    return Poisoned(reason, job_id) if is_wrong_type(error) else error


def _serializer() -> Any:
    return JSONSerializer  # a class with two static methods, which RQ's types call an object


def _checked_id(entry: bytes | int) -> str | None:
    if isinstance(entry, int):
        return None
    text = entry.decode("ascii", "replace")
    return text if is_job_id(text) else None
