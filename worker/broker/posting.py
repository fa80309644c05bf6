"""The two steps of every queued job that its sender and people see at the broker, each in one round
trip: taken over by this host, and its result delivered. Atomic, so no half of one stands there.

Only the ordinary case: what finds something unexpected changes nothing of it and says so; whoever
asked then looks closer. Believes nothing that it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from redis import Redis
from rq.job import Job

from contracts import limits, naming

SHOWN_TTL_S: Final = limits.RESULT_TTL_S + limits.JOB_TTL_MAX_S
# Long enough for a person with RQ's tools to see how it ended; the result itself stays 7 days.
RQ_HASH_TTL_S: Final = 600

# What is shown of a job, at KEYS[2] and in RQ's own hash KEYS[3]: another type at the first gives
# way, and the second is written only where it is a job. ARGV[1] fields of the first, then those of
# the second. What was refused there is said nowhere: it is for people's eyes.
_SHOW: Final = """
local function show(first)
    local fields, rq = {}, {}
    for i = first + 1, #ARGV do
        local into = i <= first + tonumber(ARGV[first]) and fields or rq
        into[#into + 1] = ARGV[i]
    end
    if redis.call('TYPE', KEYS[2]).ok ~= 'hash' then redis.call('UNLINK', KEYS[2]) end
    redis.call('HSET', KEYS[2], unpack(fields))
    redis.call('EXPIRE', KEYS[2], ARGV[first - 1])
    if redis.pcall('HEXISTS', KEYS[3], 'data') == 1 then redis.call('HSET', KEYS[3], unpack(rq)) end
end
"""
_TAKE_OVER: Final = (
    _SHOW
    + """
local gone = ARGV[1] ~= '' and redis.pcall('LREM', KEYS[1], -1, ARGV[1])
show(3)
return type(gone) == 'number' and 1 or 0
"""
)
_DELIVER: Final = (
    _SHOW
    + """
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 0 end
redis.call('PUBLISH', ARGV[3], '1')
show(6)
redis.call('EXPIRE', KEYS[3], ARGV[4])
return 1
"""
)


def take_over(
    connection: Redis,
    job_id: str,
    taken_list: str,
    shown: Mapping[str, str],
    rq: Mapping[str, str],
    *,
    settle: bool,
) -> bool:
    """Show `shown`, and with `settle` forget that the job was taken; say whether it is forgotten.
    Raises redis's errors."""
    keys = (taken_list, naming.job_key(job_id), Job.key_for(job_id))
    words = (job_id if settle else "", str(SHOWN_TTL_S))
    return _run(connection, _TAKE_OVER, keys, words, shown, rq)


def deliver(
    connection: Redis, job_id: str, sealed: str, shown: Mapping[str, str], rq: Mapping[str, str]
) -> bool:
    """Store the first result of a job for 7 days, wake who waits for it and show `shown`; say
    whether it is the first: else nothing was done. Raises redis's errors."""
    keys = (naming.result_key(job_id), naming.job_key(job_id), Job.key_for(job_id))
    words = (sealed, str(limits.RESULT_TTL_S), naming.done_channel(job_id), str(RQ_HASH_TTL_S))
    return _run(connection, _DELIVER, keys, (*words, str(SHOWN_TTL_S)), shown, rq)


def _run(
    connection: Redis,
    script: str,
    keys: tuple[str, ...],
    words: tuple[str, ...],
    shown: Mapping[str, str],
    rq: Mapping[str, str],
) -> bool:
    fields = [part for item in (*shown.items(), *rq.items()) for part in item]
    told: Any = connection.eval(script, len(keys), *keys, *words, str(2 * len(shown)), *fields)
    return bool(told)
