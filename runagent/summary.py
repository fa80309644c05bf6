"""The best human-readable account of what the agent did.

Owns the choice among what the agent said last, what its CLI reported and what was merely printed.
It is display text of unknown origin: inert, bounded, and evidence of nothing.
"""

from __future__ import annotations

from typing import Final

from contracts.limits import SUMMARY_MAX_CHARS
from runagent.attempt_end import Attempted
from validation.inert import cut, inert, last_lines
from validation.redaction import Redactor
from validation.verdict import AgentEnd

_TAIL_LINES: Final = 20


def summarise(attempted: Attempted, redactor: Redactor) -> str:
    """Return the account of one attempt: never empty, redacted, at most 8 000 characters."""
    reading = attempted.reading
    words = (reading.answer, reading.said)
    reports = tuple(reversed(reading.errors))
    if attempted.run.end is AgentEnd.RATE_LIMITED:
        choices = (attempted.run.why, reading.quota.message, *reports, *words)
    elif attempted.run.end is AgentEnd.EXITED_OK:
        choices = (*words, *reports)
    else:
        choices = (*reports, *words)
    for choice in choices:
        if shown := inert(redactor.redact(choice)).strip():
            return cut(shown, SUMMARY_MAX_CHARS)
    printed = _printed(attempted, redactor) or _nothing_said(attempted)
    return cut(printed, SUMMARY_MAX_CHARS)


def _printed(attempted: Attempted, redactor: Redactor) -> str:
    """Return the end of the plain output: of stdout when it held no events, else of stderr."""
    outcome = attempted.outcome
    if outcome is None:
        return ""
    if not attempted.reading.events and outcome.stdout.strip():
        return _end_of(outcome.stdout, outcome.stdout_total, redactor)
    return _end_of(outcome.stderr, outcome.stderr_total, redactor)


def _end_of(tail: bytes, total: int, redactor: Redactor) -> str:
    """Return the last lines of a tail. The first line of one that was cut may begin within a
    secret, which nobody would recognise by its second half."""
    if total > len(tail):
        tail = tail.partition(b"\n")[2]
    return last_lines(redactor.redact(tail.decode("utf-8", "replace")), _TAIL_LINES)


def _nothing_said(attempted: Attempted) -> str:
    if attempted.run.why:
        return f"The agent said nothing ({attempted.run.why})."
    return "The agent said nothing."
