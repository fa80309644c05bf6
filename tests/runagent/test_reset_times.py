from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runagent.agents.reset_times import reset_of_epoch, reset_time, rfc3339
from runagent.host_zone import here

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 10, 20, 12, 0, tzinfo=BERLIN)

SAID = [
    ("You\u2019ve hit your usage limit. Visit x or try again at 8:03 PM.", "2026-10-20T18:03:00Z"),
    ("try again at 8:03 AM.", "2026-10-21T06:03:00Z"),  # over for today: tomorrow's
    ("try again at 12:00 PM", "2026-10-20T10:00:00Z"),  # this very minute
    ("try again at 12:05 AM", "2026-10-20T22:05:00Z"),
    ("try again at Oct 26th, 2026 4:40 AM", "2026-10-26T03:40:00Z"),  # the clocks changed before
    ("try again at Dec 1st, 2026 4:40 AM.", "2026-12-01T03:40:00Z"),
    ("try again at Jan 2nd 4:40 AM", "2027-01-02T03:40:00Z"),
    ("try again in 3 days 4 hours 5 minutes.", "2026-10-23T14:05:00Z"),
    ("try again in 1 day", "2026-10-21T10:00:00Z"),
    ("You've hit your limit \u00b7 resets 8:04pm (UTC)", "2026-10-20T20:04:00Z"),
    ("resets Oct 23, 2pm (America/New_York)", "2026-10-23T18:00:00Z"),
    ("Claude AI usage limit reached|1792500000", "2026-10-20T12:40:00Z"),
    ("Your quota will reset after 3h12m5s.", "2026-10-20T13:12:05Z"),
    ("Suggested retry after 2s.", "2026-10-20T10:00:02Z"),
]


@pytest.mark.parametrize(("words", "moment"), SAID)
def test_a_reset_time_is_read_in_the_host_s_zone(words: str, moment: str) -> None:
    found = reset_time(words, NOON)
    assert found is not None
    assert rfc3339(found) == moment


@pytest.mark.parametrize(
    "words",
    [
        "",
        "try again later",
        "try again at 99:99 PM",
        "try again at 13:00 PM",
        "try again at Feb 31st, 2027 4:40 AM",
        "try again at Xyz 3rd, 2026 4:40 AM",
        "try again at Oct 1st, 2019 4:40 AM",  # long over
        "usage limit reached|9999999999",  # centuries away
        "try again at 3",  # three of what
        "resets 8pm (Nowhere/Land)"[:8],
        f"try again in {'9' * 400} x",  # infinity times nothing
        "try again at Jan 1st, 0001 4:40 AM (Asia/Tokyo)",  # before the first day
        "try again at Dec 31st, 9999 11:40 PM (America/New_York)",  # after the last one
    ],
)
def test_what_names_no_plausible_moment_is_no_answer(words: str) -> None:
    assert reset_time(words, NOON) is None


def test_a_zone_that_nobody_knows_is_the_host_s() -> None:
    found = reset_time("resets 8pm (Nowhere/Land)", NOON)
    assert found is not None
    assert rfc3339(found) == "2026-10-20T18:00:00Z"


@given(st.text(max_size=200))
def test_no_words_make_it_raise(words: str) -> None:
    reset_time(words, NOON)
    reset_time(f"try again at {words}", NOON)
    reset_time(f"try again in 9{words}", NOON)


@pytest.mark.parametrize("value", [None, True, "1792500000", 1e300, -1, float("nan"), 5])
def test_an_epoch_that_is_none_is_no_answer(value: object) -> None:
    assert reset_of_epoch(value, NOON) is None


def test_an_epoch_is_the_moment() -> None:
    found = reset_of_epoch(1792500000, NOON)
    assert found == datetime(2026, 10, 20, 12, 40, tzinfo=UTC)


def test_the_zone_is_that_of_the_environment_the_cli_runs_in() -> None:
    seconds = datetime(2026, 7, 1, tzinfo=UTC).timestamp()
    assert (
        here(seconds, {"TZ": "America/New_York"}).utcoffset()
        != here(seconds, {"TZ": "Asia/Tokyo"}).utcoffset()
    )
    assert here(seconds, {"TZ": "Not/AZone"}).tzinfo is not None
    assert here(seconds, {}).tzinfo is not None
