"""What people are shown of jobs and hosts: unsigned fields and heartbeats, read with bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from contracts import limits, naming
from contracts.ids import checked_job_id, is_job_id, is_name
from dispatch.queue.bounded_reads import overwriting, read_fields, read_newest
from dispatch.queue.link import BrokerLink, translated

SHOWN_TTL_S: Final = limits.JOB_TTL_MAX_S + limits.RESULT_TTL_S
_HEARTBEAT_MAX_BYTES: Final = 64 * 1024
_HOSTS_MAX: Final = 1_000
_FAREWELL_MAX_BYTES: Final = 15  # Unix seconds: ten digits for the next centuries
_FIELD_MAX_BYTES: Final = 16 * 1024  # a path of 4096 characters, four bytes each
_SHOWN_FIELDS: Final = (
    *("jti", "iss", "aud", "lane", "kind", "agent", "ticket", "repo", "mode"),
    *("state", "host", "enqueued_at", "updated_at", "reason"),
)


class HostTrace(NamedTuple):
    """What a host left: when it was last seen (Unix seconds), its heartbeat's JSON (None when it is
    silent), and the text of its farewell (None unless it ended in order)."""

    host: str
    last_seen: float
    beat: str | None
    farewell: str | None = None


class Board(BrokerLink):
    """What the broker tells people; nothing here decides anything."""

    def show(self, job_id: str, fields: Mapping[str, str]) -> None:
        """Set fields of what is shown of a job; unsigned, for people's eyes only."""
        key = naming.job_key(checked_job_id(job_id))

        def write() -> None:
            with self.connection.pipeline(transaction=True) as pipe:
                pipe.hset(key, mapping=cast("Any", dict(fields)))
                pipe.expire(key, SHOWN_TTL_S)
                pipe.execute()

        with translated(self.url):
            overwriting(self.connection, key, write)

    def shown(self, job_id: str) -> dict[str, str]:
        """Return what is shown of a job; {} when the broker knows nothing of it."""
        key = naming.job_key(checked_job_id(job_id))
        with translated(self.url):
            return read_fields(self.connection, key, _SHOWN_FIELDS, max_bytes=_FIELD_MAX_BYTES)

    def recent_job_ids(self, limit: int) -> list[str]:
        """Return the ids of at most `limit` jobs, newest first."""
        with translated(self.url):
            found = read_newest(self.connection, naming.jobs_index(), limit)
        return [text for text, _ in found if is_job_id(text)]

    def heartbeats(self) -> list[HostTrace]:
        """Return what each host left that was seen within the last days."""
        with translated(self.url):
            seen = read_newest(self.connection, naming.hosts_index(), _HOSTS_MAX)
            hosts = [(name, when) for name, when in seen if is_name(name)]
            with self.connection.pipeline(transaction=False) as pipe:
                for name, _ in hosts:
                    pipe.getrange(naming.host_key(name), 0, _HEARTBEAT_MAX_BYTES - 1)
                    pipe.getrange(naming.farewell_key(name), 0, _FAREWELL_MAX_BYTES - 1)
                found = [_text(item) for item in pipe.execute(raise_on_error=False)]
        left = zip(hosts, found[::2], found[1::2], strict=True)
        return [HostTrace(name, when, beat, farewell) for (name, when), beat, farewell in left]


def _text(data: object) -> str | None:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) and data else None
