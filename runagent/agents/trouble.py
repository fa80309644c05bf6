"""What kind of trouble a CLI's own error message tells of: pure.

Owns one table, from the most telling words to the least. It is for messages that the CLI itself
writes, an event's error field or a whole line of its error output, and is never applied to what
the agent said or a tool printed. A code never decides a status: it says why.
"""

from __future__ import annotations

import re
from typing import Final

from contracts.reason import ReasonCode
from runagent.agents import phrases

_MAX_CHARS: Final = 4_000


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE)


# Measured, or from the makers' lists of error types (Anthropic: billing_error, overloaded_error,
# "prompt is too long"; OpenAI: insufficient_quota, context_length_exceeded, server_is_overloaded;
# Google: RESOURCE_EXHAUSTED, UNAVAILABLE).
_TABLE: Final = (
    (
        ReasonCode.BILLING,
        _words(
            r"""credit\ balance\ is\ too\ low | out\ of\ (?:\w+\ ){0,2}credits | insufficient_quota
            | billing_error | check\ your\ plan\ and\ billing | \bpayment\ required\b
            | \bstatus\ 402\b | purchase\ (?:more\ )?credits\ to\ continue"""
        ),
    ),
    (
        ReasonCode.USAGE_LIMIT,
        _words(
            r"""hit\ your\ (?:\w+\ ){0,2}limit\b | reached\ your\ (?:\w+\ ){0,2}limit\b
            | \busage[ _-]limit\b | exhausted\ your\ (?:[\w-]+\ ){0,3}(?:quota|capacity)
            | \bdaily\ quota\b | TerminalQuotaError | exceeded\ your\ (?:[\w-]+\ ){0,3}quota"""
        ),
    ),
    (
        ReasonCode.CONTEXT_FULL,
        _words(
            r"""prompt\ is\ too\ long | context[ _](?:length|window)[ _](?:exceeded|limit)
            | context_length_exceeded | maximum\ context\ length | exceeds?\ the\ context\ window
            | ran\ out\ of\ room\ in\ the\ model's\ context | input\ token\ count\ .{0,40}exceeds"""
        ),
    ),
    (
        ReasonCode.DROPPED_STREAM,
        _words(
            r"""stream\ (?:disconnected|closed|ended|error) | (?:connection|socket)\ (?:error\b
            |(?:was\ )?(?:reset|closed|lost|dropped|aborted|terminated))
            | \bECONNRESET\b | socket\ hang\ up | premature(?:ly)?\ (?:close|ended|end)
            | error\ decoding\ response\ body | incomplete\ (?:stream|response|message)
            | invalid\ stream | unexpected\ (?:eof|end\ of\ (?:file|stream)) | \bterminated\b
            | error\ sending\ request | \bECONNREFUSED\b | fetch\ failed | timed?[ -]?out"""
        ),
    ),
    (
        ReasonCode.OVERLOADED,
        _words(
            r"""\boverloaded(?:_error)?\b | \b(?:HTTP|status|code|error|API\ Error):?\ ?5\d\d\b
            | \((?:HTTP\ )?5\d\d\) | internal\ server\ error | bad\ gateway | service\ unavailable
            | at\ capacity | high\ demand | \bserver_error\b | \b5\d\d\ (?:Internal|Bad|Service)"""
        ),
    ),
)


def code_of(message: str) -> ReasonCode | None:
    """Return what kind of trouble `message` tells of, None when it is none of these."""
    text = message[:_MAX_CHARS]
    for code, words in _TABLE[:2]:
        if words.search(text):
            return code
    if phrases.names_a_limit(text):
        return ReasonCode.RATE_LIMIT
    if phrases.names_a_missing_login(text):
        return ReasonCode.AUTH_EXPIRED
    for code, words in _TABLE[2:]:
        if words.search(text):
            return code
    return ReasonCode.PERMISSION_DENIED if phrases.names_a_denial(text) else None
