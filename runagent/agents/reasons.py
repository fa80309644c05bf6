"""Why an attempt ended as it did, for programs: pure, and of no weight for its status.

Owns the order of the sources: our own stop, then the CLI's events, then how the process ended, then
its error lines. Prose of the agent is never read. `classify` and the verdict decide what becomes of
a job; a reason says what to do next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from contracts.reason import Reason, ReasonCode
from runagent.agents import phrases
from runagent.agents.reading import Reading
from runagent.agents.reset_times import reset_of_epoch, reset_time, rfc3339
from runagent.agents.trouble import code_of
from validation.inert import one_line
from validation.verdict import AgentEnd

_MESSAGE_CHARS: Final = 500
_LAST_LINES: Final = 5
# As a shell says it: 128 + the number. Others of the range are exit codes of programs (gemini-cli
# exits with the HTTP status modulo 256: 401 is 145, 429 is 173).
_SIGNALS: Final = frozenset({128 + n for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25)})
_NO_LOGIN_EXITS: Final = frozenset({("gemini", 41), ("gemini", 145)})
_NOT_FOUND_EXITS: Final = frozenset({126, 127})
_LIMITS: Final = frozenset({ReasonCode.RATE_LIMIT, ReasonCode.USAGE_LIMIT, ReasonCode.BILLING})
_LONGEST_S: Final = 366 * 86_400  # as of a reset time: what lies further ahead is no answer
_HTTP_SERVER_ERROR: Final = "5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an attempt ended: the classified `end`, the exit code, and the reason in words where we
    stopped it ourselves or it could not be started."""

    agent: str
    end: AgentEnd
    exit_code: int | None
    why: str = ""


def reason_of(ended: Ended, reading: Reading, now: datetime) -> Reason | None:
    """Return the reason, None after a clean end. `now` is aware, in the host's own zone."""
    if ended.end is AgentEnd.RATE_LIMITED:
        return _limit(ended, reading, now)
    if ended.end in _OURS:
        return _reason(_OURS[ended.end], ended.why)
    if ended.end is AgentEnd.APPROVAL_REQUIRED:
        return _reason(ReasonCode.PERMISSION_DENIED, _denied_tools(reading))
    if ended.exit_code == 0:
        return _of_exit_0(reading, now)
    return _of_failure(ended, reading, now)


_OURS: Final = {
    AgentEnd.TIMED_OUT: ReasonCode.STOPPED_BY_US,
    AgentEnd.ABORTED: ReasonCode.STOPPED_BY_US,
    AgentEnd.NOT_STARTED: ReasonCode.NOT_INSTALLED,
}


def _limit(ended: Ended, reading: Reading, now: datetime) -> Reason:
    """Name the limit, and when it ends: by the event's own number, else by the words."""
    quota = reading.quota
    texts = [text for text in (quota.message, *reversed(reading.errors)) if text]
    lines = [phrases.plain(line) for line in _reports(reading)]
    texts += [line for line in lines if phrases.is_a_limit_report(line)]
    told = (code for text in texts if (code := code_of(text)) and code in _LIMITS)
    code = quota.code or next(told, ReasonCode.RATE_LIMIT)
    resets = reset_of_epoch(quota.resets_at, now)
    for text in (*texts, *lines):
        resets = resets or reset_time(text, now)
    after = None if resets is None else _seconds(resets, now)
    if after is None and quota.retry_after_s is not None and quota.retry_after_s <= _LONGEST_S:
        after = max(0, math.ceil(quota.retry_after_s))
    return Reason(
        code=code.value,
        message=one_line(texts[0] if texts else ended.why, _MESSAGE_CHARS),
        retryAfterSec=after,
        resetsAt=None if resets is None else rfc3339(resets),
    )


def _seconds(moment: datetime, now: datetime) -> int:
    return max(0, math.ceil((moment - now).total_seconds()))


def _of_exit_0(reading: Reading, now: datetime) -> Reason | None:
    """Name what an exit 0 hides: the status stays the verdict's."""
    if reading.quota.limited:
        silent = Ended(agent="", end=AgentEnd.RATE_LIMITED, exit_code=0)
        return _limit(silent, reading, now)
    if reading.login_missing:
        return _reason(ReasonCode.AUTH_EXPIRED, _last(reading.errors))
    if reading.turn_failed:
        return _of_events(reading) or _reason(ReasonCode.TURN_FAILED, reading.end_code)
    if reading.denials or reading.approvals or _has_denial_line(reading):
        return _reason(ReasonCode.PERMISSION_DENIED, _denied_tools(reading))
    if reading.events and (not reading.ended or reading.answer_cut):
        return _reason(ReasonCode.TURN_FAILED, "the turn did not come to its end")
    return None


def _of_failure(ended: Ended, reading: Reading, now: datetime) -> Reason:
    if reading.login_missing or (ended.agent, ended.exit_code) in _NO_LOGIN_EXITS:
        return _reason(ReasonCode.AUTH_EXPIRED, _last(reading.errors) or _last_line(reading))
    told = _of_events(reading)
    if told is not None:
        return told
    if ended.exit_code in _SIGNALS and not reading.ended:
        number = (ended.exit_code or 0) - 128
        return _reason(
            ReasonCode.CRASHED, f"ended by signal {number}, which this host did not send"
        )
    if ended.exit_code in _NOT_FOUND_EXITS and not reading.events:
        return _reason(ReasonCode.NOT_INSTALLED, _last_line(reading))
    for line in _error_lines(reading):
        code = code_of(line)
        if code in _LIMITS:
            return _limit(ended, reading, now)
        if code is not None:
            return _reason(code, line)
    return _reason(ReasonCode.TURN_FAILED, _last(reading.errors) or _last_line(reading))


def _of_events(reading: Reading) -> Reason | None:
    """Return the reason in the CLI's own error events, the last one first."""
    for message in reversed(reading.errors):
        code = code_of(message)
        if code is not None:
            return _reason(code, message)
    last = _last(reading.errors)
    if reading.fault_code in set(ReasonCode):
        return _reason(ReasonCode(reading.fault_code), last)
    if reading.turn_failed and reading.end_code.startswith(_HTTP_SERVER_ERROR):
        return _reason(ReasonCode.OVERLOADED, last or f"HTTP {reading.end_code}")
    return _reason(ReasonCode.TURN_FAILED, last) if reading.turn_failed and last else None


def _reports(reading: Reading) -> tuple[str, ...]:
    spoken = () if reading.events else tuple(reading.plain["stdout"])[-_LAST_LINES:]
    return (*reading.plain["stderr"], *spoken)


def _error_lines(reading: Reading) -> Iterator[str]:
    """Yield the lines that have the shape of a CLI's own error, the last one first. Where a CLI
    prints its transcript to stderr, other lines are the agent's and its tools'."""
    for line in reversed(_reports(reading)):
        text = phrases.plain(line)
        if phrases.is_an_error_line(text):
            yield text


def _has_denial_line(reading: Reading) -> bool:
    return any(phrases.is_a_denial_report(line) for line in reading.plain["stderr"])


def _denied_tools(reading: Reading) -> str:
    names = sorted({name for name in (*reading.denials, *reading.approvals) if name})
    return ", ".join(names) or "a tool was refused"


def _last(messages: Iterable[str]) -> str:
    return next((text for text in reversed(tuple(messages)) if text), "")


def _last_line(reading: Reading) -> str:
    return _last(phrases.plain(line) for line in _reports(reading))


def _reason(code: ReasonCode, message: str) -> Reason:
    return Reason(code=code.value, message=one_line(message, _MESSAGE_CHARS))
