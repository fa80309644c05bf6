"""The best human-readable account of what the agent did.

Owns the choice among what the agent said last, what its CLI reported and what was merely printed.
It is display text of unknown origin: inert, bounded, and evidence of nothing.
"""

from __future__ import annotations

from typing import Final

from contracts.limits import SUMMARY_MAX_CHARS
from runagent.attempt import Attempted
from validation.inert import cut, inert, last_lines
from validation.verdict import AgentEnd

_TAIL_LINES: Final = 20


def summarise(attempted: Attempted) -> str:
    """Return the account of one attempt: never empty, at most 8 000 characters."""
    reading = attempted.reading
    words = (reading.answer, reading.said)
    reports = tuple(reversed(reading.errors))
    if attempted.run.end is AgentEnd.RATE_LIMITED:
        choices = (attempted.run.why, reading.limit_message, *reports, *words)
    elif attempted.run.end is AgentEnd.EXITED_OK:
        choices = (*words, *reports)
    else:
        choices = (*reports, *words)
    for choice in choices:
        if shown := inert(choice).strip():
            return cut(shown, SUMMARY_MAX_CHARS)
    return cut(_printed(attempted) or _nothing_said(attempted), SUMMARY_MAX_CHARS)


def _printed(attempted: Attempted) -> str:
    """Return the end of the plain output: of stdout when it held no events, else of stderr."""
    outcome = attempted.outcome
    if outcome is None:
        return ""
    if not attempted.reading.events and outcome.stdout.strip():
        return last_lines(outcome.stdout, _TAIL_LINES)
    return last_lines(outcome.stderr, _TAIL_LINES)


def _nothing_said(attempted: Attempted) -> str:
    if attempted.run.why:
        return f"The agent said nothing ({attempted.run.why})."
    return "The agent said nothing."
