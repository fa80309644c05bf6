from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.run_agent import Status
from dispatch.heartbeats import Heartbeat, read_heartbeat
from dispatch.hosts import (
    HostView,
    state_words,
    view_hosts,
    waiting_state,
)
from dispatch.job_views import Ended, view_job
from dispatch.queue import HostTrace, Place, Whereabouts
from dispatch.sent import SentJob
from dispatch.times import age_words, last_seen_words, read_seconds, rfc3339

NOW = 100_000.0
JOB = "a" * 20
SENT = SentJob(
    job_id=JOB,
    aud="lane:A",
    lane="A",
    kind="run_agent",
    queue_name="fd.lane.A",
    sha256="",
    iat=99_000,
    exp=101_000,
    agent="codex",
    ticket="T-1",
    repo="/r",
    mode="build",
    envelope="",
)


def live(name: str, *lanes: str) -> HostView:
    return HostView(name=name, last_seen=NOW - 1, beat=Heartbeat(host=name, lanes=lanes))


def draining(name: str, *lanes: str) -> HostView:
    beat = Heartbeat(host=name, lanes=lanes, draining=True)
    return HostView(name=name, last_seen=NOW - 1, beat=beat)


def silent(name: str, seconds: float | None) -> HostView:
    return HostView(name=name, last_seen=None if seconds is None else NOW - seconds, beat=None)


def stopped(name: str, at: float = NOW - 60) -> HostView:
    return HostView(name=name, last_seen=at, beat=None, stopped_at=at)


@pytest.mark.parametrize(
    ("aud", "hosts", "words"),
    [
        ("lane:A", [], "queued: no listener serves lane A"),
        ("lane:A", [live("PC1", "B"), silent("PC2", 20)], "queued: no listener serves lane A"),
        ("lane:A", [live("PC1", "B"), live("PC2", "A")], "queued"),
        ("host:PC1", [live("PC2", "A")], "queued: host PC1 was never seen"),
        ("host:PC1", [silent("PC1", None)], "queued: host PC1 was never seen"),
        ("host:PC1", [silent("PC1", 60)], "host_lost (last seen 60 s ago)"),
        ("host:PC1", [live("PC1", "B")], "queued: host PC1 does not serve lane A"),
        ("host:PC1", [live("PC1", "A")], "queued"),
        ("host:PC1", [stopped("PC1", 0)], "queued: host PC1 was stopped at 1970-01-01T00:00:00Z"),
        ("lane:A", [stopped("PC1", 0)], "queued: no listener serves lane A"),
        ("lane:A", [draining("PC1", "A")], "queued: no listener serves lane A"),
        ("lane:A", [draining("PC1", "A"), live("PC2", "A")], "queued"),
        (
            "host:PC1",
            [draining("PC1", "A")],
            "queued: host PC1 is draining: it takes no more jobs",
        ),
    ],
)
def test_a_waiting_job_says_what_it_waits_for(aud: str, hosts: list[HostView], words: str) -> None:
    assert state_words(*waiting_state(aud, "A", hosts, now=NOW)) == words


def test_every_host_is_listed_that_was_seen_or_granted() -> None:
    beat = json.dumps({"host": "PC1", "os": "Linux", "lanes": ["A"], "newField": 1, "slots": 2})
    views = view_hosts(
        [HostTrace("PC1", 5.0, beat, "4"), HostTrace("GONE", 4.0, None)],
        [("PC1", ["B", "A"]), ("NEW", ["A"])],
    )
    assert [view.name for view in views] == ["GONE", "NEW", "PC1"]
    gone, new, pc1 = views
    assert (gone.is_live, gone.last_seen, gone.granted_lanes) == (False, 4.0, ())
    assert (new.last_seen, new.granted_lanes) == (None, ("A",))
    assert pc1.beat is not None
    assert (pc1.beat.slots, pc1.granted_lanes) == (2, ("A", "B"))
    assert pc1.beat.model_extra == {"newField": 1}
    assert [view.state for view in views] == ["host_lost", "never_seen", "live"]


@pytest.mark.parametrize(
    ("farewell", "state"),
    [
        ("1700000000", "stopped"),
        (None, "host_lost"),
        ("soon", "host_lost"),
        ("9" * 16, "host_lost"),
    ],
)
def test_only_a_host_that_said_farewell_is_shown_as_stopped(
    farewell: str | None, state: str
) -> None:
    (view,) = view_hosts([HostTrace("PC1", 5.0, None, farewell)], [])
    assert view.state == state


def test_a_job_that_a_stopped_host_still_owes_an_end_is_not_called_lost() -> None:
    state, why = _view({"state": "started", "host": "PC1"}, hosts=(stopped("PC1", 0),))
    assert state == "started"
    assert why.startswith("host PC1 was stopped at 1970-01-01T00:00:00Z")


def test_a_moment_that_no_calendar_has_is_shown_as_nothing() -> None:
    assert [rfc3339(moment) for moment in (None, 1e300, float("nan"))] == ["", "", ""]
    assert rfc3339(0.0) == "1970-01-01T00:00:00Z"
    assert [read_seconds(text) for text in ("12", "", "-1", "1.5", "²", None)] == [
        12.0,
        *[None] * 5,
    ]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"host":"PC2"}', '{"host":"PC1","lanes":1}'])
def test_a_heartbeat_that_is_none_counts_as_silence(text: str) -> None:
    assert read_heartbeat("PC1", text) is None


def test_a_heartbeat_cannot_write_to_a_terminal() -> None:
    beat = read_heartbeat("PC1", json.dumps({"host": "PC1", "os": "\x1b[2J\u202e" + "x" * 500}))
    assert beat is not None
    assert beat.os.startswith("\ufffdx")
    assert len(beat.os) == 100


@given(st.text(), st.text())
def test_any_text_is_a_heartbeat_or_silence(name: str, text: str) -> None:
    beat = read_heartbeat(name, text)
    assert beat is None or beat.host == name


def test_spans_of_time_are_shown_in_their_largest_unit() -> None:
    words = [age_words(s) for s in (-5, 0, 119, 120, 7_199, 7_200, 172_799, 172_800)]
    assert words == ["0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 d"]
    assert last_seen_words(None, NOW) == "never seen"


def _view(
    shown: dict[str, str],
    *,
    sent: SentJob | None = SENT,
    hosts: tuple[HostView, ...] = (),
    verified: Ended | None = None,
    now: float = NOW,
) -> tuple[str, str]:
    view = view_job(JOB, shown, sent, hosts, verified=verified, now=now)
    return view.state, view.why


def test_a_verified_status_outranks_whatever_the_broker_shows() -> None:
    shown = {"state": "queued", "reason": "lies"}
    assert _view(shown, verified=Ended(Status.COMPLETED, "PC1")) == ("completed", "")


def test_a_queued_job_says_why_it_waits() -> None:
    assert _view({"state": "queued"}) == ("queued", "no listener serves lane A")
    shown = {"state": "queued", "reason": "PC1 declined: no such repository"}
    assert _view(shown, hosts=(live("PC1", "A"),)) == ("queued", shown["reason"])


def test_a_running_job_on_a_silent_host_is_shown_as_lost() -> None:
    shown = {"state": "started", "host": "PC1"}
    assert _view(shown, hosts=(live("PC1", "A"),)) == ("started", "")
    assert _view(shown, hosts=(silent("PC1", 30),)) == ("host_lost", "last seen 30 s ago")
    assert _view(shown) == ("host_lost", "never seen")


def test_a_final_word_of_the_broker_is_passed_on() -> None:
    shown = {"state": "done", "host": "PC1", "reason": "failed"}
    assert _view(shown, sent=None, hosts=(silent("PC1", 30),)) == ("done", "failed")


def test_a_job_out_of_time_is_expired_and_one_that_nobody_knows_is_unknown() -> None:
    late = SENT.exp + 121
    assert _view({}) == (
        "unknown",
        "the broker knows nothing of it: it never got it, or lost its data",
    )
    assert _view({}, now=late)[0] == "expired"
    assert _view({"state": "queued"}, now=late)[0] == "expired"
    assert _view({"state": "queued"}, now=SENT.exp + 119)[0] == "queued"


def test_what_the_sender_knows_outranks_what_the_broker_shows() -> None:
    shown = {"state": "queued", "aud": "host:EVIL", "lane": "X", "agent": "x", "ticket": "x"}
    view = view_job(JOB, shown, SENT, (), verified=None, now=NOW)
    assert (view.lane, view.target, view.agent, view.ticket) == ("A", "", "codex", "T-1")
    assert (view.age_s, view.is_mine) == (1_000, True)


@given(st.dictionaries(st.sampled_from(["state", "aud", "lane", "host", "enqueued_at"]), st.text()))
def test_anything_the_broker_shows_can_be_viewed(shown: dict[str, str]) -> None:
    view = view_job(JOB, shown, None, (), verified=None, now=NOW)
    assert view.age_s >= 0
    assert "\x1b" not in view.state + view.why + view.host + view.lane


def test_a_job_that_a_host_has_is_not_called_queued_whatever_is_shown() -> None:
    where = Whereabouts(Place.CLAIMED, "", "PC1")
    for shown in ({}, {"state": "queued"}):
        for host, state in ((live("PC1", "A"), "started"), (silent("PC1", 30), "host_lost")):
            view = view_job(JOB, shown, SENT, (host,), verified=None, now=NOW, where=where)
            assert (view.state, view.host) == (state, "PC1")
    done = {"state": "done", "host": "PC1", "reason": "failed"}
    view = view_job(JOB, done, SENT, (), verified=None, now=NOW, where=where)
    assert (view.state, view.why) == ("done", "failed")
