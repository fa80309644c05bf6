"""Signed results in Redis: kept once, read with bounds, waited for without polling.

What is read here is text from anybody who reaches the broker; the caller verifies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from redis.exceptions import ResponseError

from contracts import limits, naming
from contracts.errors import Unavailable, WaitTimedOut
from contracts.ids import checked_job_id
from dispatch.queue.bounded_reads import is_wrong_type
from dispatch.queue.link import BrokerLink, translated

# A lost wake-up costs at most this; with a heartbeat's life of 10 s a silent host is seen in 13 s.
RECHECK_S: Final = 3.0
_RETRY_PAUSE_S: Final = 1.0
_OTHERS_MAX: Final = 16

_T = TypeVar("_T")


class StoredAs(StrEnum):
    """Where a result went."""

    FIRST = "first"
    SAME = "same"  # the identical text is there already
    OTHER = "other"  # another text holds the first place: this one is kept beside it


class ResultStore(BrokerLink):
    """The results of jobs: the part of the queue that travels back."""

    def store_result(self, job_id: str, text: str) -> StoredAs:
        """Keep the signed result `text` for 7 days and wake who waits for it.

        The first one keeps its place; a different one is kept beside it and is an alarm. Storing
        the same text again changes nothing. Raises Unavailable; then the caller tries again.
        """
        key, data = naming.result_key(checked_job_id(job_id)), text.encode()
        with translated(self.url):
            if self.connection.set(key, data, nx=True, ex=limits.RESULT_TTL_S):
                stored = StoredAs.FIRST
            elif self._bounded(key) == data:
                stored = StoredAs.SAME
            else:
                stored = self._store_beside(job_id, data)
            self.connection.publish(naming.done_channel(job_id), b"1")
        return stored

    def result_texts(self, job_id: str) -> list[str]:
        """Return every stored result of a job, the first one first; none of them is verified.

        What is too large, or no text, is left out.
        """
        others = naming.other_results_key(checked_job_id(job_id))
        with translated(self.url):
            found = [self._bounded(naming.result_key(job_id))]
            try:
                size = self.connection.memory_usage(others, samples=0)
                if size is not None and int(str(size)) <= limits.ENVELOPE_MAX_BYTES:
                    found += cast("list[bytes]", self.connection.lrange(others, 0, _OTHERS_MAX - 1))
            except ResponseError:  # not a list: nothing of ours
                pass
        return [data.decode("utf-8", "replace") for data in found if data]

    def receipt_text(self, job_id: str) -> str:
        """Return what stands as the sender's receipt of a job, "" when nothing does; unverified."""
        with translated(self.url):
            data = self._bounded(naming.receipt_key(checked_job_id(job_id)))
        return data.decode("utf-8", "replace")

    def store_receipt(self, job_id: str, queue_name: str, text: str, state: str) -> None:
        """Keep the sender's receipt for 7 days, take the job out of its queue, and wake who waits.

        `state` is what people are shown. A host that took the job is not stopped by it.
        """
        key = naming.job_key(checked_job_id(job_id))
        with translated(self.url):
            with self.connection.pipeline(transaction=True) as pipe:
                pipe.set(naming.receipt_key(job_id), text, nx=True, ex=limits.RESULT_TTL_S)
                pipe.lrem(naming.rq_list(queue_name), 0, job_id)
                pipe.publish(naming.done_channel(job_id), b"1")
                answers = pipe.execute(raise_on_error=False)
            # A queue that holds another type holds no job; whatever else failed is to be said.
            failed = [item for item in answers if isinstance(item, Exception)]
            if not all(map(is_wrong_type, failed)):
                raise failed[0]
            if self.connection.type(key) == b"hash":
                self.connection.hset(key, "state", state)

    def wait_result(
        self,
        job_id: str,
        verify: Callable[[list[str]], _T | None],
        timeout_s: float | None,
        *,
        when_away: Callable[[], _T | None] | None = None,
    ) -> _T:
        """Return what `verify` makes of the stored results, as soon as that is not None.

        Woken by the announcement, with a look of its own every 3 s. A broker that goes away
        meanwhile is waited for, and `when_away` is asked instead. `timeout_s` None waits for
        ever. Raises WaitTimedOut, and Unavailable when the broker is away at the start or the end.
        """
        give_up = None if timeout_s is None else self._clock.monotonic() + timeout_s
        answer = verify(self.result_texts(job_id))
        with self._subscription() as subscription:
            away: Unavailable | None = None
            while answer is None:
                left = RECHECK_S if give_up is None else give_up - self._clock.monotonic()
                if left <= 0:
                    raise away or WaitTimedOut(
                        f"no result of {job_id} within {round(timeout_s or 0.0, 1):g} s",
                        remedy=f"fleet-dispatch wait {job_id}",
                    )
                try:
                    self._sleep_on(subscription, job_id, min(left, RECHECK_S))
                    answer, away = verify(self.result_texts(job_id)), None
                except Unavailable as error:
                    away = error
                    answer = when_away() if when_away is not None else None
                    if answer is not None:
                        break
                    self._clock.wait(threading.Event(), min(left, _RETRY_PAUSE_S))
        return answer

    def _bounded(self, key: str) -> bytes:
        """Return at most one envelope's bytes of a string; b"" for anything else."""
        try:
            data = self.connection.getrange(key, 0, limits.ENVELOPE_MAX_BYTES)
        except ResponseError:
            return b""
        return cast("bytes", data)

    def _store_beside(self, job_id: str, data: bytes) -> StoredAs:
        key = naming.other_results_key(job_id)
        if self.connection.type(key) not in (b"list", b"none"):
            self.connection.delete(key)  # nothing of ours was ever there
        if self.connection.lpos(key, data) is not None:  # type: ignore[arg-type]
            return StoredAs.SAME
        with self.connection.pipeline(transaction=True) as pipe:
            pipe.rpush(key, data)
            pipe.ltrim(key, -_OTHERS_MAX, -1)
            pipe.expire(key, limits.RESULT_TTL_S)
            pipe.execute()
        return StoredAs.OTHER

    def _subscription(self) -> Any:
        connection: Any = self.connection  # redis-py leaves this one method untyped
        return connection.pubsub(ignore_subscribe_messages=True)

    def _sleep_on(self, subscription: Any, job_id: str, seconds: float) -> None:
        with translated(self.url):
            if not subscription.subscribed:
                subscription.subscribe(naming.done_channel(job_id))
            subscription.get_message(timeout=seconds)
