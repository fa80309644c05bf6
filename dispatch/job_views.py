"""A job as a person sees it: its state, and why it is not further. Pure.

What the sender itself verified outranks what the broker shows; the broker's fields are unsigned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contracts import limits
from contracts.status import Status
from dispatch.endings import is_claim_unknown
from dispatch.hosts import (
    HOST_LOST,
    NEVER_SEEN,
    QUEUED,
    STOPPED,
    HostView,
    stopped_words,
    waiting_state,
)
from dispatch.queue import Place, Whereabouts
from dispatch.sent import SentJob
from dispatch.times import last_seen_words, read_seconds
from validation.inert import one_line

CLAIM_UNKNOWN: Final = "claim_unknown"
# Words of hosts, and of another machine of the sender that ended the job.
_FINAL: Final = frozenset({"done", "published", "refused", "abandoned", "expired"})
# What hosts write. Anything else was written by somebody else, a status before all.
_UNDER_WAY: Final = frozenset({"started"})


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended for its sender: the status, the host ("" when the sender ended it), and the
    note of the sender's own receipt where there is one."""

    status: Status
    host: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job. `state` is a status once a result verified; before that `queued`, the host's own
    word, or one of `expired`, `unknown`, `host_lost` and `claim_unknown`. `why` is for people."""

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
    verified: Ended | None,
    now: float,
    where: Whereabouts | None = None,
) -> JobView:
    """Return the view of one job.

    `shown` is what the broker has of it, `sent` this sender's own record, `verified` its end when a
    signature held, and `where` in which list it was found just now (None: nobody looked).
    """
    fields = {name: one_line(value, 300) for name, value in shown.items()}
    if sent is not None:
        known = {"aud": sent.aud, "lane": sent.lane, "kind": sent.kind}
        fields |= known | {"agent": sent.agent, "ticket": sent.ticket}
    if where is not None and where.place is Place.CLAIMED and where.host:
        # A host has it though nothing more is shown: it did not come to that, or data was lost.
        shows_less = fields.get("state", QUEUED) == QUEUED
        fields |= {"state": "started", "host": one_line(where.host, 300)} if shows_less else {}
    aud = fields.get("aud", "")
    state, why = _state(fields, sent, hosts, verified=verified, now=now)
    if verified is None and sent is not None and where is not None:
        state, why = _whereabouts(state, why, sent, where)
    return JobView(
        job_id=job_id,
        state=state,
        host=verified.host if verified else fields.get("host", ""),
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
    verified: Ended | None,
    now: float,
) -> tuple[str, str]:
    if verified is not None:
        return verified.status.value, verified.note
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


def _whereabouts(state: str, why: str, sent: SentJob, where: Whereabouts) -> tuple[str, str]:
    """Correct what is shown by where the job was found: a lane's job that is in no list may have
    been started, and is never called queued."""
    if is_claim_unknown(sent, where):
        return CLAIM_UNKNOWN, claim_unknown_words(sent.job_id)
    return state, why


def claim_unknown_words(job_id: str) -> str:
    """Return why a lane's job is not queued again by itself, and what a person can do."""
    return (
        "claim unknown: the broker lost its data, and a host of the lane may have started the job; "
        f"it is not queued again by itself (fleet-dispatch sweep {job_id} --resend-lane)"
    )


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
