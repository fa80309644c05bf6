"""Lines of state: one each, printable, and never in the way."""

from __future__ import annotations

import io
import json

from contracts.clock import ManualClock
from worker.announcer import Announcer


def test_a_line_places_the_change_and_stays_one_line() -> None:
    stream = io.StringIO()
    say = Announcer(ManualClock(), stream)
    say("claimed", job="a", reason="two words", other="", odd="x\x1b[31m\ny")
    assert stream.getvalue() == (
        '2023-11-14T22:13:20Z claimed job=a reason="two words" odd="x y"\n'
    )


def test_the_same_as_json() -> None:
    stream = io.StringIO()
    Announcer(ManualClock(), stream, as_json=True)("claimed", job="a")
    assert json.loads(stream.getvalue()) == {
        "at": "2023-11-14T22:13:20Z",
        "what": "claimed",
        "job": "a",
    }


def test_a_closed_stream_stops_nothing() -> None:
    stream = io.StringIO()
    stream.close()
    Announcer(ManualClock(), stream)("claimed")
