"""What a sender does about a job of its own that has no result yet. Pure.

A job is pushed again only when no host can have started it unseen; it is ended only when its time
or its sender's patience is over. What a silent host did is never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts import limits
from contracts.receipt_code import ReceiptCode
from dispatch.hosts import HostView
from dispatch.queue import Place, Whereabouts
from dispatch.sent import SentJob

GIVE_UP_DEFAULT_S: Final = 24 * 3_600  # the life of a job that says nothing else
_FIRST_PAUSE_S: Final = 5
_LONGEST_PAUSE_S: Final = 300


def ending_of(
    job: SentJob, where: Whereabouts, hosts: Sequence[HostView], *, now: float
) -> ReceiptCode | None:
    """Return how the sender ends `job` now, None when it waits on.

    Expired: its time and the accepted skew are over while it stood unclaimed. Abandoned: the moment
    that the sender named has come; where it named none, 24 hours after the job was signed, unless
    the job still waits in its queue or a living host has it.
    """
    if job.give_up_at is not None and now >= job.give_up_at:
        return ReceiptCode.ABANDONED
    was_accepted = job.pushed_at is not None or where.place is not Place.ABSENT
    is_unclaimed = where.place in (Place.LISTED, Place.REFUSED) or not was_accepted
    if is_unclaimed or (where.place is Place.NOWHERE and job.target):
        return ReceiptCode.EXPIRED if is_over(job, now) else None
    if job.give_up_at is not None or now < job.iat + GIVE_UP_DEFAULT_S:
        return None
    has_it = where.place is Place.CLAIMED and where.host
    alive = any(host.is_live for host in hosts if host.name == where.host)
    return None if has_it and alive else ReceiptCode.ABANDONED


def is_given_up(job: SentJob, now: float) -> bool:
    """Say whether the sender's patience with a job that a host took over HTTP is over: where it
    named no moment, 24 hours after the job was signed."""
    return now >= (job.iat + GIVE_UP_DEFAULT_S if job.give_up_at is None else job.give_up_at)


def is_over(job: SentJob, now: float) -> bool:
    """Say whether no host accepts the job any more."""
    return now > job.exp + limits.SKEW_S


def may_be_due(job: SentJob, now: float) -> bool:
    """Say whether there may be something to do about a job that stands in its queue, or that a host
    has: else nothing is, whatever more is known of it."""
    return job.pushed_at is None or is_over(job, now) or is_given_up(job, now)


def may_push_again(job: SentJob, where: Whereabouts, broker: str, *, now: float) -> bool:
    """Say whether no host can have started the job without its journal knowing a second message.

    `broker` is the broker's data mark now. A host knows its own jobs by its journal; a lane's job
    may have been started by any host of it, so it is pushed only when it never was before.
    """
    if not where.is_lost or not job.envelope or is_over(job, now):
        return False
    return bool(job.target) or never_pushed(job, where, broker)


def never_pushed(job: SentJob, where: Whereabouts, broker: str) -> bool:
    """Say whether the first push of the job is known not to have happened."""
    if job.pushed_at is not None or where.place is not Place.ABSENT:
        return False
    return job.broker in ("", broker)


def is_claim_unknown(job: SentJob, where: Whereabouts) -> bool:
    """Say whether a host of the lane may have started the job, and nobody here can know."""
    return not job.target and where.is_lost and job.pushed_at is not None


def is_due(job: SentJob, now: float) -> bool:
    """Say whether it may be pushed again already: at once, then 5 s later, then after twice as long
    each time, 5 minutes at most. A clock that was set back does not stop it."""
    pause = min(_FIRST_PAUSE_S * 2 ** min(max(job.pushes - 1, 0), 10), _LONGEST_PAUSE_S)
    return not job.pushes or abs(now - job.tried_at) >= pause
