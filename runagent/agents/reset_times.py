"""When a limit ends, read out of a CLI's own words: pure.

Owns the ways in which the CLIs say it: seconds since the epoch, a span, a time of day, a date. A
time without a zone is the host's local one, as the CLI printed it there. Whoever calls brings
`now` in the host's zone. What lies in the past or more than a year ahead is no answer.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

_LONGEST: Final = timedelta(days=366)
_PRINTED_EVERY: Final = timedelta(minutes=1)  # a time of day is printed in whole minutes
_MAX_CHARS: Final = 2_000
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)

# "|1759255200": claude's own; some versions wrote milliseconds.
_EPOCH: Final = re.compile(r"\|\s*(\d{10})(?:\d{3})?\b")
# codex: "try again at 8:03 PM", "try again at Dec 1st, 2026 4:40 AM"; claude: "resets 8:04pm
# (UTC)" or "resets Oct 3, 2pm (Europe/Berlin)".
_AT: Final = re.compile(
    r"""(?:try\ again\ at|resets?(?:\ at)?|available\ (?:again\ )?at|reset\ at)\s+
    (?:(?P<month>[A-Za-z]{3})[a-z]*\.?\ (?P<day>\d{1,2})(?:st|nd|rd|th)?
       (?:,?\ (?P<year>\d{4}))?(?:,|\ at)?\ )?
    (?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]\.?m\.?)?
    (?:\s*\((?P<zone>[A-Za-z_+\-/0-9]{1,40})\))?""",
    re.IGNORECASE | re.VERBOSE,
)
# codex: "try again in 3 days 4 hours 5 minutes"; gemini: "reset after 3h12m5s", "retry after 2s"
_IN: Final = re.compile(
    r"(?:try again in|resets? (?:in|after)|retry (?:in|after)|retry-after:?)\s+"
    r"(?P<span>(?:\d+(?:\.\d+)?\s*[a-z]*[,\s]*(?:and\s+)?){1,5})",
    re.IGNORECASE,
)
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS: Final = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "": 1.0}


def reset_time(message: str, now: datetime) -> datetime | None:
    """Return when the limit that `message` reports ends, in UTC; None when it does not say.

    `now` is aware, in the host's own zone.
    """
    text = message[:_MAX_CHARS]
    for read in (_read_epoch, _read_span, _read_moment):
        try:
            found = read(text, now)
            if found is not None:
                return _plausible(found, now)
        except (ValueError, OverflowError):
            return None  # a number or a year that no clock has
    return None


def reset_of_epoch(seconds: object, now: datetime) -> datetime | None:
    """Return the moment of an epoch that an event names, None for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return _plausible(datetime.fromtimestamp(seconds, UTC), now)
    except (ValueError, OverflowError, OSError):
        return None


def rfc3339(moment: datetime) -> str:
    """Return `moment` as the wire has it: UTC, whole seconds."""
    return moment.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _plausible(moment: datetime, now: datetime) -> datetime | None:
    at = moment.astimezone(UTC)
    return at if now - _PRINTED_EVERY <= at <= now + _LONGEST else None


def _read_epoch(text: str, _now: datetime) -> datetime | None:
    found = _EPOCH.search(text)
    return datetime.fromtimestamp(int(found[1]), UTC) if found else None


def _read_span(text: str, now: datetime) -> datetime | None:
    found = _IN.search(text)
    if found is None:
        return None
    seconds = 0.0
    for amount, unit in _PART.findall(found["span"]):
        name = unit.lower()
        # "ms" is a thousandth; "mo" is no unit that a CLI was seen with
        seconds += float(amount) * (0.001 if name.startswith("ms") else _UNITS.get(name[:1], 0.0))
    # A reset is told in whole seconds at most: round up, so that nobody comes too early.
    return now + timedelta(seconds=min(seconds, 1e9)) if seconds else None


def _read_moment(text: str, now: datetime) -> datetime | None:
    found = _AT.search(text)
    if found is None or not (found["minute"] or found["half"]):
        return None
    hour, minute = int(found["hour"]), int(found["minute"] or 0)
    if found["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found["half"].lower().startswith("p") else 0)
    here = now.astimezone(_zone(found["zone"]) or now.tzinfo)
    try:
        moment = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return _on_its_day(found, moment, now)
    except ValueError:
        return None


def _on_its_day(found: re.Match[str], moment: datetime, now: datetime) -> datetime | None:
    """Return `moment` on the day that was named, else on the next day on which it lies ahead."""
    if not found["month"]:
        return moment if moment >= now - _PRINTED_EVERY else moment + timedelta(days=1)
    name = found["month"].lower()[:3]
    if name not in _MONTHS:
        return None
    year = int(found["year"] or moment.year)
    dated = moment.replace(year=year, month=_MONTHS.index(name) + 1, day=int(found["day"]))
    is_over = not found["year"] and dated < now - timedelta(days=1)
    return dated.replace(year=year + 1) if is_over else dated


def _zone(name: str | None) -> tzinfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return None
