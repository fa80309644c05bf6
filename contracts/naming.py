"""Names that two machines must agree on: Redis keys, channels, RQ queue names, the RQ entry path,
branch and worktree names. All of it is wire format, pinned by a golden test."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "fd"

# The only thing an RQ job of ours ever names. Nothing imports it because Redis says so: the sealed
# job compares it as text and calls the entry that the listener was built with.
ENTRY_PATH: Final = "worker.entry.run_envelope"


def lane_queue(lane: str) -> str:
    """Return the RQ queue name of a lane: the first free host takes from it."""
    return f"{PREFIX}.lane.{lane}"


def host_queue(lane: str, host: str) -> str:
    """Return the RQ queue name of one host's part of a lane.

    No lane or host can have an '@' in its name, so that no lane's queue is another one's part.
    """
    return f"{PREFIX}.lane.{lane}@{host}"


def rq_list(queue: str) -> str:
    """Return the Redis list behind an RQ queue name (RQ's own key format)."""
    return f"rq:queue:{queue}"


def taken_list(queue: str, host: str) -> str:
    """Return the list that holds what `host` popped from `queue` and has not yet settled. One per
    host, so that a restart gives back its own and nobody else's."""
    return f"{PREFIX}:taken:{queue}:{host}"


def job_key(job_id: str) -> str:
    """Return the hash with what is shown of a job; unsigned, for people's eyes only."""
    return f"{PREFIX}:job:{job_id}"


def jobs_index() -> str:
    """Return the sorted set of job ids by enqueue time (Unix seconds)."""
    return f"{PREFIX}:jobs"


def claim_key(job_id: str) -> str:
    """Return the key that the host which takes a job sets, once; it names host and journal."""
    return f"{PREFIX}:claim:{job_id}"


def refusals_key(job_id: str) -> str:
    """Return the hash host -> reason of hosts that gave a lane job back."""
    return f"{PREFIX}:refusals:{job_id}"


def result_key(job_id: str) -> str:
    """Return the key of the first signed result, set once."""
    return f"{PREFIX}:result:{job_id}"


def other_results_key(job_id: str) -> str:
    """Return the list of results that came when another one was there already: an alarm."""
    return f"{PREFIX}:result:{job_id}:others"


def receipt_key(job_id: str) -> str:
    """Return the key of the sender's own signed end of a job, set once."""
    return f"{PREFIX}:receipt:{job_id}"


def cancel_key(job_id: str) -> str:
    """Return the key of the sender's signed order to end a job."""
    return f"{PREFIX}:cancel:{job_id}"


def control_channel(host: str) -> str:
    """Return the channel that says "look at what is ordered and asked" to a host, with a job's id
    or nothing; a forged ring costs one look."""
    return f"{PREFIX}:control:{host}"


def asks_list(host: str) -> str:
    """Return the bounded list of signed questions to a host."""
    return f"{PREFIX}:asks:{host}"


def delivery_key(job_id: str) -> str:
    """Return the bounded list of hosts' signed words about further messages, the newest first."""
    return f"{PREFIX}:delivery:{job_id}"


def done_channel(job_id: str) -> str:
    """Return the channel on which a stored result is announced; waking is all it can do."""
    return f"{PREFIX}:done:{job_id}"


def bell_channel(queue: str) -> str:
    """Return the channel that says "look at this queue"; a forged ring costs one look."""
    return f"{PREFIX}:bell:{queue}"


def host_key(host: str) -> str:
    """Return the heartbeat of a host: JSON with a time to live."""
    return f"{PREFIX}:host:{host}"


def farewell_key(host: str) -> str:
    """Return the key that a host which ends in order leaves: decimal Unix seconds."""
    return f"{PREFIX}:farewell:{host}"


def hosts_index() -> str:
    """Return the sorted set of host names by the time they were last seen (Unix seconds)."""
    return f"{PREFIX}:hosts"


def data_mark() -> str:
    """Return the key of a random text, set once: it is gone when the broker lost its data."""
    return f"{PREFIX}:data"


def dead_letters() -> str:
    """Return the bounded list of what was refused before it could be trusted, with the reason."""
    return f"{PREFIX}:dead"


def events_stream(job_id: str) -> str:
    """Return the bounded stream of a job's signed batches of events."""
    return f"{PREFIX}:events:{job_id}"


def governor_pools() -> str:
    """Return the set of the governor's pools, each `agent/account`."""
    return f"{PREFIX}:gov:pools"


def governor_limits(pool: str) -> str:
    """Return the hash `unit/window` -> `cap:estimate` of one pool."""
    return f"{PREFIX}:gov:limits:{pool}"


def governor_bookings(pool: str) -> str:
    """Return the hash of the starts that one pool counts."""
    return f"{PREFIX}:gov:book:{pool}"


def governor_closed(pool: str) -> str:
    """Return the hash that says until when a pool admits nothing, and why."""
    return f"{PREFIX}:gov:closed:{pool}"


def job_branch(job_id: str, ticket: str) -> str:
    """Return the branch of a job's worktree."""
    return f"wt/{job_id}/{ticket}"


def agents_folder(repo: str) -> str:
    """Return the folder beside `repo` (an absolute path) that holds its job worktrees."""
    return f"{repo}-agents"


def host_audience(host: str) -> str:
    """Return the audience claim of one host."""
    return f"host:{host}"


def lane_audience(lane: str) -> str:
    """Return the audience claim of a lane."""
    return f"lane:{lane}"
