"""The streams of events at the broker, read with bounds.

What is read here is text from anybody who reaches the broker; the caller verifies.
"""

from __future__ import annotations

from typing import Any, Final

from redis.exceptions import ResponseError

from contracts import naming
from dispatch.queue.bounded_reads import is_wrong_type, run_reading
from dispatch.queue.fleet_queue import FleetQueue
from dispatch.queue.link import translated

_ENTRY_MAX_BYTES: Final = 1024 * 1024  # one line that is larger than a batch is the largest
_AT_ONCE: Final = 16
# What is too large, or no entry of ours, is an empty text: it is dropped, and told.
_ENTRIES: Final = """
local found = {}
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', tonumber(ARGV[2]))
for _, entry in ipairs(entries) do
    local fields = entry[2]
    local text = ''
    if #fields == 2 and #fields[2] <= tonumber(ARGV[3]) then text = fields[2] end
    found[#found + 1] = entry[1]
    found[#found + 1] = text
end
return found
"""


def read_entries(queue: FleetQueue, job_id: str, after: str) -> list[tuple[str, str]]:
    """Return (id, text) of the next entries of a job's stream behind the id `after` ("" from its
    beginning); empty when there is none. Raises Unavailable or CouldNotCheck."""
    connection: Any = queue.connection
    start = f"({after}" if after else "-"
    with translated(queue.url):
        try:
            found = run_reading(
                connection,
                _ENTRIES,
                [naming.events_stream(job_id)],
                start,
                _AT_ONCE,
                _ENTRY_MAX_BYTES,
            )
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            return []
    texts = [item.decode("utf-8", "replace") for item in found]
    return list(zip(texts[::2], texts[1::2], strict=True))
