"""A job as a person sees it: its state, and why it is not further. Pure.

What the sender itself verified outranks what the broker shows; the broker's fields are unsigned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contracts import limits
from contracts.run_agent import Status
from dispatch.hosts import (
    HOST_LOST,
    NEVER_SEEN,
    QUEUED,
    STOPPED,
    HostView,
    stopped_words,
    waiting_state,
)
from dispatch.sent import SentJob
from dispatch.times import last_seen_words, read_seconds
from validation.inert import one_line

_FINAL: Final = frozenset({"done", "published", "refused"})
# What hosts write. Anything else was written by somebody else, a status before all.
_UNDER_WAY: Final = frozenset({"started"})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job. `state` is a status once a result verified; before that `queued`, the host's own
    word, or one of `expired`, `unknown` and `host_lost`. `why` is text for people."""

    job_id: str
    state: str
    host: str
    lane: str
    target: str  # the host it is addressed to, "" for the first free one of its lane
    kind: str
    agent: str
    ticket: str
    age_s: int
    why: str
    is_mine: bool


def view_job(
    job_id: str,
    shown: Mapping[str, str],
    sent: SentJob | None,
    hosts: Sequence[HostView],
    *,
    verified: tuple[Status, str] | None,
    now: float,
) -> JobView:
    """Return the view of one job.

    `shown` is what the broker has of it, `sent` this sender's own record, `verified` the status and
    host of a result whose signature held.
    """
    fields = {name: one_line(value, 300) for name, value in shown.items()}
    if sent is not None:
        known = {"aud": sent.aud, "lane": sent.lane, "kind": sent.kind}
        fields |= known | {"agent": sent.agent, "ticket": sent.ticket}
    aud = fields.get("aud", "")
    state, why = _state(fields, sent, hosts, verified=verified, now=now)
    return JobView(
        job_id=job_id,
        state=state,
        host=verified[1] if verified else fields.get("host", ""),
        lane=fields.get("lane", ""),
        target=aud.removeprefix("host:") if aud.startswith("host:") else "",
        kind=fields.get("kind", ""),
        agent=fields.get("agent", ""),
        ticket=fields.get("ticket", ""),
        age_s=max(0, int(now - _since(fields, sent, now))),
        why=why,
        is_mine=sent is not None,
    )


def _state(
    fields: Mapping[str, str],
    sent: SentJob | None,
    hosts: Sequence[HostView],
    *,
    verified: tuple[Status, str] | None,
    now: float,
) -> tuple[str, str]:
    if verified is not None:
        return verified[0].value, ""
    state, reason = fields.get("state", ""), fields.get("reason", "")
    is_over = sent is not None and now > sent.exp + limits.SKEW_S
    if not state:
        if is_over:
            return "expired", "no result came while the broker knew it"
        return "unknown", "the broker knows nothing of it: it never got it, or lost its data"
    if state == QUEUED:
        if is_over:
            return "expired", "no host took it before its time ran out"
        aud, lane = fields.get("aud", ""), fields.get("lane", "")
        waiting, why = waiting_state(aud, lane, hosts, now=now)
        return waiting, why or reason
    if state in _FINAL:
        return state, reason
    if state not in _UNDER_WAY:
        return "unknown", "the broker shows a state that no host writes"
    return _running_state(state, reason, fields.get("host", ""), hosts, now)


def _running_state(
    state: str, reason: str, name: str, hosts: Sequence[HostView], now: float
) -> tuple[str, str]:
    host = next((item for item in hosts if item.name == name), None)
    if host is not None and host.state == STOPPED:
        return state, f"{stopped_words(host)}: it tells how this ended when it is back"
    if name and (host is None or host.state in (HOST_LOST, NEVER_SEEN)):
        return HOST_LOST, last_seen_words(host.last_seen if host else None, now)
    return state, reason


def _since(fields: Mapping[str, str], sent: SentJob | None, now: float) -> float:
    if sent is not None:
        return float(sent.iat)
    told = read_seconds(fields.get("enqueued_at"))
    return now if told is None else told
