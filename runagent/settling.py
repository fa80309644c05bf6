"""What an attempt came to, told to the governor.

Owns the translation of an attempt's end into what is booked, and of a reported limit into the time
for which nothing else is started. Judges nothing.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from contracts.reason import ReasonCode
from contracts.run_agent import Risk
from contracts.usage import Usage
from runagent.attempt_end import Attempted
from runagent.bookings import Bookings
from runagent.governor import AgentLimit, Spent
from validation.verdict import AgentEnd

_LIMITS: Final = frozenset({ReasonCode.RATE_LIMIT.value, ReasonCode.USAGE_LIMIT.value})


def settle(bookings: Bookings, number: int, attempted: Attempted) -> tuple[Risk, ...]:
    """Settle the start `number`, and close the agent's pool when the agent reported a limit with
    its end. Returns notes: what the governor did not take."""
    usage = attempted.reading.usage
    spent = Spent(
        started=attempted.launched,
        tokens=None if usage is None else counted_tokens(usage),
        dollars=None if usage is None else usage.costUsd,
    )
    notes = bookings.settle(number, spent)
    limit = _reported_limit(attempted)
    return notes if limit is None else (*notes, *bookings.close_until(limit))


def counted_tokens(usage: Usage) -> int:
    """Return the tokens that a pool counts: read anew, written to a cache, and put out. What was
    read from a cache is left out: providers count it for a tenth or less."""
    return usage.input + usage.cacheWrite5m + usage.cacheWrite1h + usage.output


def _reported_limit(attempted: Attempted) -> AgentLimit | None:
    """Return the limit that ended the attempt. One that an agent printed on its way to another end
    stops nobody else: its words alone close nothing."""
    reason = attempted.reason
    if not attempted.launched or attempted.run.end is not AgentEnd.RATE_LIMITED:
        return None
    if reason is None or reason.code not in _LIMITS:
        return None
    resets_at = None
    if reason.resetsAt is not None:
        resets_at = int(datetime.fromisoformat(reason.resetsAt).timestamp())
    if resets_at is None and reason.retryAfterSec is None:
        return None  # nobody knows until when
    return AgentLimit(
        code=reason.code,
        message=reason.message,
        retry_after_s=reason.retryAfterSec,
        resets_at=resets_at,
    )
