"""What the host shows of its jobs in Redis, for people's eyes only: nothing here is ever believed.

Three shapes: the hash of a job, the list of dead letters, and RQ's own hash of the job, which is
marked finished and soon goes. Nothing of a payload is written.
"""

from __future__ import annotations

import json
from typing import Any, Final

from redis import Redis
from redis.exceptions import ResponseError
from rq.job import Job, JobStatus
from rq.utils import now as rq_now
from rq.utils import utcformat

from contracts import naming
from contracts.clock import Clock
from dispatch.queue.bounded_reads import is_wrong_type, overwriting
from worker.broker.posting import RQ_HASH_TTL_S, SHOWN_TTL_S, deliver, take_over

DEAD_LETTERS_MAX: Final = 1_000
_POISON_TTL_S: Final = 24 * 3_600
_TEXT_MAX_CHARS: Final = 300


class Board:
    """Writes of one host to what is shown. Every method may raise Redis's errors."""

    def __init__(self, connection: Redis, host: str, clock: Clock) -> None:
        self._redis: Any = connection  # redis types every answer as sync or awaitable
        self._host = host
        self._clock = clock

    def show(self, job_id: str, state: str, reason: str = "", **fields: str) -> None:
        """Set what is shown of a job."""
        values = {**self._shown(state, reason), **fields}
        key = naming.job_key(job_id)

        def write() -> None:
            with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.hset(key, mapping=values)
                pipeline.expire(key, SHOWN_TTL_S)
                pipeline.execute()

        overwriting(self._redis, key, write)

    def show_started(self, job_id: str, taken_list: str, *, settle: bool) -> bool:
        """Show a started job, to RQ's tools as well. With `settle`, forget in the same step that it
        was taken; say whether it is forgotten."""
        rq = {"status": JobStatus.STARTED.value, "worker_name": self._host}
        shown = self._shown("started")
        return take_over(self._redis, job_id, taken_list, shown, rq, settle=settle)

    def show_done(self, job_id: str, status: str) -> None:
        """Show a job that has ended, to RQ's tools for a while; then their hash is gone."""
        self.show(job_id, "done", status)
        self._set_rq(job_id, _rq_finished())
        self._redis.expire(Job.key_for(job_id), RQ_HASH_TTL_S)

    def deliver(self, job_id: str, sealed: str, status: str) -> bool:
        """Store a signed result, announce it and show that the job has ended, in one step; say
        whether it is the first that stands there: else nothing was done."""
        shown = self._shown("done", status)
        return deliver(self._redis, job_id, sealed, shown, _rq_finished())

    def bury(self, queue: str, job_id: str, reason: str) -> None:
        """Note what was refused before it could be trusted; `job_id` is "" when it is none."""
        letter = {
            "jobId": job_id,
            "queue": queue,
            "host": self._host,
            "reason": reason,
            "at": int(self._clock.wall()),
        }
        key = naming.dead_letters()

        def write() -> None:
            with self._redis.pipeline(transaction=True) as pipeline:
                pipeline.lpush(key, json.dumps(letter))
                pipeline.ltrim(key, 0, DEAD_LETTERS_MAX - 1)
                pipeline.execute()

        overwriting(self._redis, key, write)

    def expire_poison(self, job_id: str) -> None:
        """Let what stands under a refused id go by itself, whatever type it has."""
        self._redis.expire(Job.key_for(job_id), _POISON_TTL_S)

    def _shown(self, state: str, reason: str = "") -> dict[str, str]:
        return {
            "state": state,
            "host": self._host,
            "updated_at": str(int(self._clock.wall())),
            "reason": reason[:_TEXT_MAX_CHARS],
        }

    def _set_rq(self, job_id: str, values: dict[str, str]) -> None:
        """Set fields of RQ's hash if it is there: an emptied Redis gets no half of one back."""
        key = Job.key_for(job_id)
        try:
            if self._redis.hexists(key, "data"):
                self._redis.hset(key, mapping=values)
        except ResponseError as error:
            if not is_wrong_type(error):  # what is no hash is nobody's job
                raise


def _rq_finished() -> dict[str, str]:
    return {"status": JobStatus.FINISHED.value, "ended_at": utcformat(rq_now())}
