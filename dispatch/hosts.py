"""Hosts as their heartbeats show them, and why a job may have to wait. Unsigned: for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from contracts.naming import host_audience
from dispatch.queue import HostTrace
from dispatch.times import last_seen_words, read_seconds, rfc3339

if TYPE_CHECKING:
    from dispatch.heartbeats import Heartbeat

QUEUED: Final = "queued"
LIVE: Final = "live"
DRAINING: Final = "draining"  # it lets its jobs finish, and takes no other
STOPPED: Final = "stopped"
HOST_LOST: Final = "host_lost"  # silence alone: whether it is gone, nobody but itself can say
NEVER_SEEN: Final = "never_seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One host: `beat` is None while it is silent, `last_seen` is None when it never was seen, and
    `stopped_at` is when it ended in order (Unix seconds), None unless that is why it is silent."""

    name: str
    last_seen: float | None
    beat: Heartbeat | None
    granted_lanes: tuple[str, ...] = ()
    stopped_at: float | None = None

    @property
    def state(self) -> str:
        """Return `live`, `draining`, `stopped`, `host_lost` or `never_seen`."""
        if self.beat is not None:
            return DRAINING if self.beat.draining else LIVE
        if self.stopped_at is not None:
            return STOPPED
        return NEVER_SEEN if self.last_seen is None else HOST_LOST

    @property
    def is_live(self) -> bool:
        """Say whether it spoke within the last seconds."""
        return self.beat is not None

    def holds(self, job_id: str) -> bool:
        """Say whether it is live and has that job in its hands."""
        return self.beat is not None and job_id in self.beat.jobs

    def serves(self, lane: str) -> bool:
        """Say whether it is live and takes jobs of `lane`."""
        return self.beat is not None and not self.beat.draining and lane in self.beat.lanes


def view_hosts(
    traces: Iterable[HostTrace], granted: Sequence[tuple[str, Sequence[str]]]
) -> list[HostView]:
    """Return every host that was seen or was granted keys, by name.

    `traces` is what the queue returns; `granted` is (host, lanes).
    """
    lanes = {name: tuple(sorted(held)) for name, held in granted}
    views = {name: HostView(name=name, last_seen=None, beat=None) for name in lanes}
    for name, seen, text, farewell in traces:
        beat = None if text is None else _read_heartbeat(name, text)
        stopped_at = read_seconds(farewell) if beat is None else None
        views[name] = HostView(name=name, last_seen=seen, beat=beat, stopped_at=stopped_at)
    return [
        replace(view, granted_lanes=lanes.get(name, ())) for name, view in sorted(views.items())
    ]


def _read_heartbeat(name: str, text: str) -> Heartbeat | None:
    # its model is loaded where there is one to be read
    from dispatch.heartbeats import read_heartbeat

    return read_heartbeat(name, text)


def waiting_state(aud: str, lane: str, hosts: Sequence[HostView], *, now: float) -> tuple[str, str]:
    """Return the state of a job queued for `aud` in `lane`, and why nobody takes it now.

    The state is `queued` or `host_lost`; the reason is "" when somebody will take it.
    """
    kind, _, name = aud.partition(":")
    if kind == "lane":
        served = any(host.serves(lane) for host in hosts)
        return QUEUED, "" if served else no_listener_words(lane)
    host = next((item for item in hosts if host_audience(item.name) == aud), None)
    if host is None or host.state == NEVER_SEEN:
        return QUEUED, f"host {name} was never seen"
    if host.state == STOPPED:
        return QUEUED, stopped_words(host)
    if host.state == HOST_LOST:
        return HOST_LOST, last_seen_words(host.last_seen, now)
    if host.state == DRAINING:
        return QUEUED, f"host {name} is draining: it takes no more jobs"
    return QUEUED, "" if host.serves(lane) else f"host {name} does not serve lane {lane}"


def no_listener_words(lane: str) -> str:
    """Return the sentence for a lane without a living host."""
    return f"no listener serves lane {lane}"


def stopped_words(host: HostView) -> str:
    """Return the sentence for a host that ended in order."""
    return f"host {host.name} was stopped at {rfc3339(host.stopped_at)}"


def state_words(state: str, why: str) -> str:
    """Return a state that is no end, with its reason: `queued: why`, `host_lost (last seen …)`."""
    if not why:
        return state
    return f"{state} ({why})" if state == HOST_LOST else f"{state}: {why}"
