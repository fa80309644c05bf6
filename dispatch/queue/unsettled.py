"""Which of many jobs need a look: what has an end, or is in nobody's hands. All of them at once.

One script for up to 500 jobs of a queue, in one step: what counts is how many lists they may stand
in, not how many jobs they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, cast

from contracts import naming
from contracts.ids import checked_job_id
from dispatch.queue.bounded_reads import run_reading
from dispatch.queue.link import BrokerLink, translated

# KEYS: the results of all jobs, their receipts, their claims, then lists. ARGV: how many jobs, and
# their ids. What is there of all of them is counted first, and looked for where there is something.
# A claim of another type is none: no host wrote it.
_UNSETTLED: Final = """
local n, open, found = tonumber(ARGV[1]), {}, {}
local function count(first, jobs)
    local keys = {}
    for _, i in ipairs(jobs) do keys[#keys + 1] = KEYS[first + i] end
    return #keys == 0 and 0 or redis.call('EXISTS', unpack(keys))
end
local function without(first, jobs)
    if count(first, jobs) == 0 then return jobs end
    local rest = {}
    for _, i in ipairs(jobs) do
        if redis.call('EXISTS', KEYS[first + i]) == 0 then rest[#rest + 1] = i end
    end
    return rest
end
local function add(jobs)
    for _, i in ipairs(jobs) do found[#found + 1] = ARGV[i + 1] end
end
for i = 1, n do open[i] = i end
local rest = without(n, without(0, open))
local is_open = {}
for _, i in ipairs(rest) do is_open[ARGV[i + 1]] = i end
for i = 1, n do if not is_open[ARGV[i + 1]] then add({i}) end end
local left = #rest
for k = 3 * n + 1, #KEYS do
    local from, part = 0, {}
    if left > 0 and redis.call('TYPE', KEYS[k]).ok == 'list' then
        repeat
            part = redis.call('LRANGE', KEYS[k], from, from + 999)
            for _, id in ipairs(part) do
                if is_open[id] then is_open[id], left = nil, left - 1 end
            end
            from = from + 1000
        until #part < 1000 or left == 0
    end
end
for _, i in ipairs(rest) do
    local is_lost = is_open[ARGV[i + 1]]
    if is_lost and redis.call('TYPE', KEYS[2 * n + i]).ok ~= 'string' then add({i}) end
end
return found
"""
_JOBS_MAX: Final = 500  # of one script, so that it holds the broker up for no more than moments
_HOSTS_MAX: Final = 1_000


class Whereto(NamedTuple):
    """A job, the queue that it was pushed into, and its host ("": any that serves the lane)."""

    job_id: str
    queue_name: str
    target: str


def find_unsettled(link: BrokerLink, jobs: Iterable[Whereto], hosts: Sequence[str]) -> list[str]:
    """Return those jobs that have a result or a receipt at the broker (whatever it is worth), or
    that no list holds and nobody claims.

    `hosts` are the names of all that there are. Raises Unavailable.
    """
    queues: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        queues.setdefault((job.queue_name, job.target), []).append(checked_job_id(job.job_id))
    found: list[str] = []
    for (queue_name, target), job_ids in queues.items():
        takers = [target] if target else hosts[:_HOSTS_MAX]
        lists = [naming.rq_list(queue_name)]
        lists += [naming.taken_list(queue_name, host) for host in takers]
        for first in range(0, len(job_ids), _JOBS_MAX):
            found += _unsettled_of(link, job_ids[first : first + _JOBS_MAX], lists)
    return found


def _unsettled_of(link: BrokerLink, job_ids: Sequence[str], lists: Sequence[str]) -> list[str]:
    keys = [naming.result_key(job_id) for job_id in job_ids]
    keys += [naming.receipt_key(job_id) for job_id in job_ids]
    keys += [naming.claim_key(job_id) for job_id in job_ids]
    with translated(link.url):
        told = run_reading(link.connection, _UNSETTLED, [*keys, *lists], len(job_ids), *job_ids)
    return [item.decode("utf-8", "replace") for item in cast("list[bytes]", told)]
