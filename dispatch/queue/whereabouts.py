"""Where a job is at one moment: in which list, in whose hands, or nowhere.

One script looks at everything at once, so that a job on its way from one list to the next is always
seen in one of them: listeners move a job in one step, from its queue to their list of taken ones,
and claim it before they settle it there. RQ's own intermediate list is used by nobody here. A queue
is searched last, from both ends: there stand what is next and what people look at, however long it
is.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, cast

from contracts import naming
from contracts.ids import checked_job_id
from dispatch.queue.bounded_reads import is_wrong_type, run_reading
from dispatch.queue.link import BrokerLink, translated

_LOOK: Final = """
local function is(key, kind) return redis.call('TYPE', key).ok == kind end
local function field(name)
    if redis.call('HSTRLEN', KEYS[3], name) > 64 then return '' end
    return redis.call('HGET', KEYS[3], name) or ''
end
if redis.call('EXISTS', KEYS[1]) == 1 then return {'finished', '', ''} end
local known, state, host = is(KEYS[3], 'hash'), '', ''
if known then state, host = field('state'), field('host') end
if is(KEYS[2], 'string') then
    return {'claimed', state, host ~= '' and host or redis.call('GETRANGE', KEYS[2], 0, 63)}
end
local function has(key, ...)
    return is(key, 'list') and redis.call('LPOS', key, ARGV[1], ...)
end
for i = 5, #KEYS do
    if has(KEYS[i]) then return {'listed', state, host} end
end
if has(KEYS[4], 'MAXLEN', 256) or has(KEYS[4], 'RANK', -1) then return {'listed', state, host} end
return {known and 'nowhere' or 'absent', state, host}
"""
_MARK_MAX_BYTES: Final = 64
# What a host writes of a job that it has taken; its claim may have run out meanwhile.
_TAKEN_STATES: Final = frozenset({"started", "done", "published"})
# One script sees the taken lists of this many hosts: more than a lane has.
_HOSTS_MAX: Final = 1_000


class Place(StrEnum):
    """Where a job is."""

    FINISHED = "finished"  # something stands as its result
    CLAIMED = "claimed"  # a host has it, or had it
    LISTED = "listed"  # in its queue, or taken by a host that has not claimed it yet
    REFUSED = "refused"  # a host would not read it
    NOWHERE = "nowhere"  # shown as queued, and in no list
    ABSENT = "absent"  # the broker knows nothing of it: it never came, or data was lost


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where a job is, and what is shown of it (unsigned): a state and a host."""

    place: Place
    state: str = ""
    host: str = ""

    @property
    def is_lost(self) -> bool:
        """Say whether no list holds it and nobody is known to have it."""
        return self.place in (Place.NOWHERE, Place.ABSENT)


class JobFinder(BrokerLink):
    """Looking for jobs, and telling whether the broker still has the data that it had."""

    def whereabouts(self, job_id: str, queue_name: str, hosts: Sequence[str]) -> Whereabouts:
        """Return where a job is that was pushed into `queue_name`.

        `hosts` are the names of all who may have taken it from there.
        """
        keys = [naming.result_key(checked_job_id(job_id)), naming.claim_key(job_id)]
        keys += [naming.job_key(job_id), naming.rq_list(queue_name)]
        keys += [naming.taken_list(queue_name, host) for host in hosts[:_HOSTS_MAX]]
        with translated(self.url):
            found = cast("list[bytes]", run_reading(self.connection, _LOOK, keys, job_id))
        place, state, holder = (item.decode("utf-8", "replace") for item in found)
        host = holder.partition("/")[0]  # a claim names the host and its journal
        if place == Place.NOWHERE and state in _TAKEN_STATES:
            return Whereabouts(Place.CLAIMED, state, host)
        if place == Place.NOWHERE and state == Place.REFUSED:
            return Whereabouts(Place.REFUSED, state, host)
        return Whereabouts(Place(place), state, host)

    def data_mark(self) -> str:
        """Return a text that changes when the broker was emptied, restarted or failed over.

        As long as it is the same, what was written there before is there, or was taken in order.
        It is like no other when the broker does not tell what it is (INFO is forbidden, say).
        """
        key = naming.data_mark()
        with translated(self.url), self.connection.pipeline(transaction=False) as pipe:
            pipe.set(key, secrets.token_hex(16), nx=True)
            pipe.getrange(key, 0, _MARK_MAX_BYTES - 1)
            pipe.info("server")
            told, mark, server = pipe.execute(raise_on_error=False)
            if is_wrong_type(mark):
                self.connection.unlink(key)  # nothing of ours: from here on it is another mark
            elif isinstance(told, Exception):
                raise told
        if isinstance(mark, bytes) and isinstance(server, dict) and server.get("run_id"):
            return f"{server['run_id']}/{mark.decode('utf-8', 'replace')}"
        return secrets.token_hex(16)  # nobody can tell: like no other mark

    def queue_lengths(self, queue_names: Sequence[str]) -> list[int]:
        """Return how many jobs wait in each queue; 0 for what is no queue."""
        with translated(self.url), self.connection.pipeline(transaction=False) as pipe:
            for name in queue_names:
                pipe.llen(naming.rq_list(name))
            found = pipe.execute(raise_on_error=False)
        return [item if isinstance(item, int) else 0 for item in found]
