"""What a sender leaves at the broker for hosts beside jobs: orders to end one, and questions.

Signed elsewhere; here they are put where hosts look, bounded, and the hosts are rung. Taking a job
back out of its queue is one step, so that it is either out, or seen in somebody's hands.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, cast

from contracts import limits, naming
from contracts.ids import checked_job_id
from dispatch.queue.bounded_reads import overwriting
from dispatch.queue.link import BrokerLink, translated

_ASKS_MAX: Final = 1_000
_HOSTS_MAX: Final = 1_000
# What is shown of a job is unsigned: it can only make the answer more careful.
_TAKE_BACK: Final = """
local function is(key, kind) return redis.call('TYPE', key).ok == kind end
if redis.call('EXISTS', KEYS[1]) == 1 then return 'finished' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'claimed' end
for i = 5, #KEYS do
    if is(KEYS[i], 'list') and redis.call('LPOS', KEYS[i], ARGV[1]) then return 'claimed' end
end
if is(KEYS[3], 'hash') then
    local state = redis.call('HGET', KEYS[3], 'state')
    if state and state ~= 'queued' then return 'claimed' end
end
if is(KEYS[4], 'list') and redis.call('LREM', KEYS[4], 0, ARGV[1]) > 0 then return 'out' end
return 'absent'
"""


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
        keys = [naming.result_key(checked_job_id(job_id)), naming.claim_key(job_id)]
        keys += [naming.job_key(job_id), naming.rq_list(queue_name)]
        keys += [naming.taken_list(queue_name, host) for host in hosts[:_HOSTS_MAX]]
        with translated(self.url):
            found = cast("bytes", self.connection.eval(_TAKE_BACK, len(keys), *keys, job_id))
        return TakenBack(found.decode("ascii"))

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
