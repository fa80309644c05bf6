"""The words in which agent CLIs report a limit, a missing login or a denied permission.

Owns two sets of patterns. The loose ones are for fields that only the CLI writes (an event's error
message); the anchored ones are for plain output, where a whole line must have the shape of the
CLI's own report. Neither is ever applied to what the agent said or to what a tool printed: a task
about rate limiting is full of these words.
"""

from __future__ import annotations

import re
from typing import Final

# Measured: "You\u2019ve hit your usage limit" and "last status: 429 Too Many Requests" (codex),
# "Request rejected (429)" and "hit your limit" (claude), "exhausted your daily quota" and
# "Resource has been exhausted" (gemini), "Rate limit reached for requests" and
# "usage_limit_reached: The usage limit has been reached" (grok).
_LIMIT: Final = re.compile(
    r"""
      hit\ your\ (?:\w+\ ){0,2}limit\b
    | \b(?:usage|rate|request)[ _-]limit[ _](?:has\ been\ )?(?:reached|exceeded|error)
    | \brate_limit(?:_error|_exceeded)?\b
    | \b429\ Too\ Many\ Requests\b | \btoo\ many\ requests\b
    | \((?:HTTP\ )?429\) | \b(?:status|code|http)\b["':= ]{0,4}429\b | ^API\ Error:\ 429\b
    | \bquota\ exceeded\b | \bexceeded\ your\ (?:[\w-]+\ ){0,3}quota\b
    | \bexhausted\ your\ (?:[\w-]+\ ){0,3}(?:quota|capacity)\b | \binsufficient_quota\b
    | \bresource\ (?:has\ been\ )?exhausted\b | \bRESOURCE_EXHAUSTED\b
    | \bout\ of\ (?:\w+\ ){0,2}credits\b | \bcredit\ balance\ is\ too\ low\b
    | \b(?:Terminal|Retryable)QuotaError\b
    """,
    re.IGNORECASE | re.VERBOSE,
)

_LIMIT_LINE: Final = re.compile(
    r"""
    (?:ERROR:\ |Error:\ |error:\ |Internal\ error:\ "?|\[?API\ Error:\ )*
    (?:
      exceeded\ retry\ limit,\ last\ status:\ 429\b
    | You['\u2019]ve\ (?:hit|reached)\ your\ (?:\w+\ ){0,2}limit\b
    | Claude\ (?:AI\ )?usage\ limit\ reached\b
    | rate\ limit\ exceeded:[ ] | rate\ limit\ reached\ for\b | requests:\ Rate\ limit\ reached\b
    | Quota\ exceeded\.\ Check\ your\ plan\b
    | Request\ rejected\ \(429\)
    | Resource\ has\ been\ exhausted\b | You\ have\ exhausted\ your\b
    | You\ exceeded\ your\ current\ quota\b
    | (?:You(?:['\u2019]re|\ are)\ )?out\ of\ (?:\w+\ ){0,2}credits\b
    | Credit\ balance\ is\ too\ low\b
    )
    | (?:ERROR|Error|error|\[?API\ Error):\ (?:429|Too\ Many\ Requests)\b
    | Error\ when\ talking\ to\ Gemini\ API\b.{0,300}\b(?:Terminal|Retryable)QuotaError:
    | (?:Terminal|Retryable)QuotaError:
    """,
    re.VERBOSE,
)

# Measured: "Not signed in." (grok), "Missing environment variable: `NAME`." (codex, for the key of
# a provider that the owner set up).
_AUTH: Final = re.compile(
    r"\bnot signed in\b|\bmissing environment variable: `"
    r"|\b401\b|\bunauthorized\b|\bunauthenticated\b|\bnot logged in\b|\binvalid api key\b"
    r"|\bapi key not valid\b|\bauthentication[_ ](?:failed|error)\b|\blogin (?:has )?expired\b",
    re.IGNORECASE,
)

# "reject command" is codex with approvals off; "requires approval" is claude without a person.
_DENIAL: Final = re.compile(
    r"approval policy is \w+; reject command"
    r"|\brequires (?:your )?approval\b"
    r"|\bpermission (?:was |has been )?denied by (?:the )?(?:user|policy)"
    r"|\bauto-denied\b|\buser (?:cancelled|rejected|denied) the (?:execution|tool)",
    re.IGNORECASE,
)

_DENIAL_LINE: Final = re.compile(
    r"(?:[^:]{0,80}: ?){0,3}(?:exec error: )?approval policy is \w+; reject command"
    r"|(?:ERROR: |Error: )?(?:This command|This action|[\w-]{1,40}) requires (?:your )?approval\b"
)

# gemini, measured: "Attempt 3 failed: Resource has been exhausted (e.g. check quota)."
_RETRY_LINE: Final = re.compile(
    r"(?:ERROR: |Error: )?Attempt \d{1,3} failed\b(?: with|:)(?P<why>.*)"
)

_ERROR_LINE: Final = re.compile(
    r"(?:\[?(?:ERROR|Error|error|API Error|Internal error|fatal|Fatal)\b|\w{1,40}Error:|Error\b"
    r"|Invalid API key\b|Not logged in\b|No auth\b|Please set an Auth method\b|Couldn't\b)"
)

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_LINE_MAX_CHARS: Final = 4_000


def names_a_limit(message: str) -> bool:
    """Say whether a CLI's own error message reports a usage limit, a rate limit or a quota."""
    return _LIMIT.search(message[:_LINE_MAX_CHARS]) is not None


def names_a_missing_login(message: str) -> bool:
    """Say whether a CLI's own error message reports a missing, wrong or expired login."""
    return _AUTH.search(message[:_LINE_MAX_CHARS]) is not None


def names_a_denial(message: str) -> bool:
    """Say whether a CLI's own message reports a denied or unanswerable permission."""
    return _DENIAL.search(message[:_LINE_MAX_CHARS]) is not None


def is_a_limit_report(line: str) -> bool:
    """Say whether a whole line of plain output is a CLI's report of a limit."""
    return _LIMIT_LINE.match(plain(line)) is not None


def is_a_denial_report(line: str) -> bool:
    """Say whether a whole line of plain output is a CLI's report of a denial."""
    return _DENIAL_LINE.match(plain(line)) is not None


def is_a_retry_report(line: str) -> bool:
    """Say whether a whole line of error output tells that a CLI tries again because of a limit."""
    found = _RETRY_LINE.match(plain(line))
    return found is not None and names_a_limit(found["why"])


def is_an_error_line(line: str) -> bool:
    """Say whether a whole line of plain output begins as the CLIs' own errors do."""
    return _ERROR_LINE.match(plain(line)) is not None


def plain(line: str) -> str:
    """Return the first 4 000 characters of `line` without colour and title sequences."""
    return _ESCAPES.sub("", line[:_LINE_MAX_CHARS]).strip()
