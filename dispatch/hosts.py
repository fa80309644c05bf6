"""Hosts as their heartbeats show them, and why a job may have to wait. Unsigned: for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from contracts.naming import host_audience
from validation.inert import one_line

_LONGEST_S: Final = 9_999 * 86_400.0


def _short(value: object) -> object:
    return one_line(value, 100) if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(_short)]


class Heartbeat(BaseModel):
    """What a listener says of itself every few seconds. Unknown fields are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    host: _Text
    os: _Text = ""
    lanes: tuple[_Text, ...] = ()
    agents: dict[_Text, _Text] = Field(default_factory=dict)
    slots: int = 0
    free: int = 0
    pid: int = 0
    contractRevision: int = 0
    version: _Text = ""
    seenAt: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView:
    """One host: `beat` is None while it is silent, `last_seen` is None when it never was seen."""

    name: str
    last_seen: float | None
    beat: Heartbeat | None
    granted_lanes: tuple[str, ...] = ()

    @property
    def is_live(self) -> bool:
        """Say whether it spoke within the last seconds."""
        return self.beat is not None

    def serves(self, lane: str) -> bool:
        """Say whether it is live and serves `lane`."""
        return self.beat is not None and lane in self.beat.lanes


def read_heartbeat(name: str, text: str | None) -> Heartbeat | None:
    """Return the heartbeat in `text`, None when there is none or it is not that host's."""
    if text is None:
        return None
    try:
        beat = Heartbeat.model_validate_json(text)
    except ValidationError:
        return None
    return beat if beat.host == name else None


def view_hosts(
    beats: Iterable[tuple[str, float, str | None]], granted: Sequence[tuple[str, Sequence[str]]]
) -> list[HostView]:
    """Return every host that was seen or was granted keys, by name.

    `beats` is what the queue returns; `granted` is (host, lanes).
    """
    lanes = {name: tuple(sorted(held)) for name, held in granted}
    views = {name: HostView(name=name, last_seen=None, beat=None) for name in lanes}
    for name, seen, text in beats:
        views[name] = HostView(name=name, last_seen=seen, beat=read_heartbeat(name, text))
    return [
        HostView(
            name=view.name,
            last_seen=view.last_seen,
            beat=view.beat,
            granted_lanes=lanes.get(name, ()),
        )
        for name, view in sorted(views.items())
    ]


def waiting_reason(aud: str, lane: str, hosts: Sequence[HostView], *, now: float) -> str:
    """Return why nobody takes a job queued for `aud` in `lane` now, "" when somebody will."""
    kind, _, name = aud.partition(":")
    if kind == "lane":
        if any(host.serves(lane) for host in hosts):
            return ""
        return f"no listener serves lane {lane}"
    host = next((item for item in hosts if host_audience(item.name) == aud), None)
    if host is None or (host.last_seen is None and not host.is_live):
        return f"host {name} was never seen"
    if not host.is_live:
        return f"host {name} is silent ({last_seen_words(host.last_seen, now)})"
    return "" if host.serves(lane) else f"host {name} does not serve lane {lane}"


def last_seen_words(last_seen: float | None, now: float) -> str:
    """Return `last seen N s ago` or `never seen`."""
    if last_seen is None:
        return "never seen"
    return f"last seen {age_words(now - last_seen)} ago"


def age_words(seconds: float) -> str:
    """Return a span of time in its largest fitting unit: 45 s, 12 min, 5 h, 3 d."""
    whole = int(min(max(seconds, 0.0), _LONGEST_S))  # a forged time may be infinite
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if whole >= 2 * size:
            return f"{whole // size} {unit}"
    return f"{whole} s"
