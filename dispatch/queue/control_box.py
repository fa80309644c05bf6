"""What a sender leaves at the broker for hosts beside jobs: orders to end one, and questions.

Signed elsewhere; here they are put where hosts look, bounded, and the hosts are rung. Taking a job
back out of its queue is one step, so that it is either out, or seen in somebody's hands.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from redis.exceptions import WatchError

from contracts import limits, naming
from contracts.ids import checked_job_id
from dispatch.queue.bounded_reads import overwriting
from dispatch.queue.link import BrokerLink, translated

_ASKS_MAX: Final = 1_000
_HOSTS_MAX: Final = 1_000
_ATTEMPTS: Final = 5


class TakenBack(StrEnum):
    """What taking a job out of its queue found."""

    OUT = "out"  # it was there, in nobody's hands, and is not there any more
    CLAIMED = "claimed"  # a host has it, had it, or is about to
    FINISHED = "finished"
    ABSENT = "absent"


class ControlBox(BrokerLink):
    """Orders and questions on their way to hosts."""

    def put_cancel(self, job_id: str, text: str, hosts: Sequence[str]) -> None:
        """Let a signed cancel stand as long as it may hold, and ring `hosts`."""
        key = naming.cancel_key(checked_job_id(job_id))
        with translated(self.url), self.connection.pipeline(transaction=True) as pipe:
            pipe.set(key, text, ex=limits.CANCEL_TTL_MAX_S)
            for host in hosts[:_HOSTS_MAX]:
                pipe.publish(naming.control_channel(host), job_id)
            pipe.execute()

    def take_back(self, job_id: str, queue_name: str, hosts: Sequence[str]) -> TakenBack:
        """Take a job out of its queue unless somebody has it. `hosts` are the names of all who may
        have taken it from there."""
        held = [naming.result_key(checked_job_id(job_id)), naming.claim_key(job_id)]
        lists = [naming.taken_list(queue_name, host) for host in hosts[:_HOSTS_MAX]]
        with translated(self.url):
            for _ in range(_ATTEMPTS):
                with self.connection.pipeline(transaction=True) as pipeline:
                    pipe: Any = pipeline
                    try:
                        pipe.watch(*held, *lists)
                        return self._take_back_watched(pipe, job_id, queue_name, lists)
                    except WatchError:
                        continue  # a host took something, or the connection broke: look again
        return TakenBack.CLAIMED

    def _take_back_watched(
        self, pipe: Any, job_id: str, queue_name: str, lists: Sequence[str]
    ) -> TakenBack:
        if pipe.exists(naming.result_key(job_id)):
            return TakenBack.FINISHED
        if pipe.exists(naming.claim_key(job_id)):
            return TakenBack.CLAIMED
        if any(pipe.type(key) == b"list" and pipe.lpos(key, job_id) is not None for key in lists):
            return TakenBack.CLAIMED
        queue, shown = naming.rq_list(queue_name), naming.job_key(job_id)
        # What is shown of a job is unsigned: it can only make the answer more careful.
        state = pipe.hget(shown, "state") if pipe.type(shown) == b"hash" else None
        if state not in (None, b"queued"):
            return TakenBack.CLAIMED
        if pipe.type(queue) != b"list":
            return TakenBack.ABSENT
        pipe.multi()
        pipe.lrem(queue, 0, job_id)
        (removed,) = pipe.execute()
        return TakenBack.OUT if removed else TakenBack.ABSENT

    def put_ask(self, host: str, text: str) -> None:
        """Ask `host`: the oldest of more than a thousand questions go unanswered."""
        key = naming.asks_list(host)

        def write() -> None:
            with self.connection.pipeline(transaction=True) as pipe:
                pipe.rpush(key, text)
                pipe.ltrim(key, -_ASKS_MAX, -1)
                pipe.expire(key, limits.ASK_TTL_MAX_S)
                pipe.publish(naming.control_channel(host), b"")
                pipe.execute()

        with translated(self.url):
            overwriting(self.connection, key, write)
