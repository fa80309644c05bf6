"""What people are shown of jobs and hosts: unsigned fields and heartbeats, read with bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from redis.exceptions import ResponseError

from contracts import limits, naming
from contracts.ids import checked_job_id, is_job_id, is_name
from dispatch.queue.link import BrokerLink, translated

SHOWN_TTL_S: Final = limits.JOB_TTL_MAX_S + limits.RESULT_TTL_S
_HEARTBEAT_MAX_BYTES: Final = 64 * 1024
_HOSTS_MAX: Final = 1_000
_SHOWN_FIELDS: Final = (
    *("jti", "iss", "aud", "lane", "kind", "agent", "ticket", "repo", "mode"),
    *("state", "host", "enqueued_at", "updated_at", "reason"),
)


class Board(BrokerLink):
    """What the broker tells people; nothing here decides anything."""

    def show(self, job_id: str, fields: Mapping[str, str]) -> None:
        """Set fields of what is shown of a job; unsigned, for people's eyes only."""
        key = naming.job_key(checked_job_id(job_id))
        with translated(self.url), self.connection.pipeline(transaction=True) as pipe:
            pipe.hset(key, mapping=cast("Any", dict(fields)))
            pipe.expire(key, SHOWN_TTL_S)
            pipe.execute()

    def shown(self, job_id: str) -> dict[str, str]:
        """Return what is shown of a job; {} when the broker knows nothing of it."""
        with translated(self.url):
            try:
                values = self.connection.hmget(
                    naming.job_key(checked_job_id(job_id)), _SHOWN_FIELDS
                )
            except ResponseError:
                return {}
        pairs = zip(_SHOWN_FIELDS, cast("list[bytes | None]", values), strict=True)
        return {
            name: value.decode("utf-8", "replace") for name, value in pairs if value is not None
        }

    def recent_job_ids(self, limit: int) -> list[str]:
        """Return the ids of at most `limit` jobs, newest first."""
        with translated(self.url):
            found = cast(
                "list[bytes]", self.connection.zrevrange(naming.jobs_index(), 0, limit - 1)
            )
        texts = [item.decode("utf-8", "replace") for item in found]
        return [text for text in texts if is_job_id(text)]

    def heartbeats(self) -> list[tuple[str, float, str | None]]:
        """Return (host, last seen in Unix seconds, heartbeat JSON or None when silent)."""
        with translated(self.url):
            index = self.connection.zrevrange(
                naming.hosts_index(), 0, _HOSTS_MAX - 1, withscores=True
            )
            seen = cast("list[tuple[bytes, float]]", index)
            named = [(name.decode("utf-8", "replace"), when) for name, when in seen]
            hosts = [(name, when) for name, when in named if is_name(name)]
            with self.connection.pipeline(transaction=False) as pipe:
                for name, _ in hosts:
                    pipe.getrange(naming.host_key(name), 0, _HEARTBEAT_MAX_BYTES - 1)
                beats = pipe.execute(raise_on_error=False)
        rows: list[tuple[str, float, str | None]] = []
        for (name, when), beat in zip(hosts, beats, strict=True):
            text = beat.decode("utf-8", "replace") if isinstance(beat, bytes) and beat else None
            rows.append((name, float(when), text))
        return rows
