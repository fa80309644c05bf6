"""What a host states beside its results: batches of events, and which keys it holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from contracts.errors import EnvelopeRefused
from contracts.event_batch import read_event_batch
from contracts.events import read_job_event
from contracts.held import read_held_claims
from contracts.strict_json import dump_strict

JOB = "a1b2c3d4e5f6a7b8c9d0"


def line(seq: int, job: str = JOB) -> str:
    """Return one line of a job's log."""
    told = {"jobId": job, "attempt": 1, "seq": seq, "time": "2026-01-01T00:00:00Z", "kind": "text"}
    return json.dumps(told)


def batch(*lines: str, **changes: Any) -> bytes:
    """Return the claims of a batch with these lines."""
    claims = {"iss": "HOSTA", "aud": "alice", "jti": JOB, "iat": 1, "jobSha256": "0" * 64}
    return dump_strict({**claims, "first": 1, "lines": list(lines), **changes})


def test_a_batch_gives_its_events_in_their_order() -> None:
    read, events = read_event_batch(batch(line(3), line(4), first=3))
    assert (read.first, [event.seq for event in events]) == (3, [3, 4])


@pytest.mark.parametrize(
    "claims",
    [
        batch(line(1), line(3)),
        batch(line(2)),
        batch(line(1), "torn"),
        batch(line(1, job="b" * 20)),
        batch(),
        batch(line(1), first=0),
        b"{",
        b"[]",
    ],
    ids=[
        "a gap",
        "another start",
        "a torn line",
        "another job",
        "empty",
        "from 0",
        "cut",
        "a list",
    ],
)
def test_a_batch_that_is_not_one_is_refused(claims: bytes) -> None:
    with pytest.raises(EnvelopeRefused) as refused:
        read_event_batch(claims)
    assert refused.value.code == "malformed"


def test_a_line_of_a_log_is_an_event_or_nothing() -> None:
    event = read_job_event(line(7))
    assert event is not None
    assert (event.seq, event.kind) == (7, "text")
    assert read_job_event(line(7)[:-5]) is None


def test_what_a_host_says_that_it_holds_is_read_strictly() -> None:
    said = {"iss": "HOSTA", "aud": "alice", "generation": 2, "grantedAt": 5}
    assert read_held_claims(dump_strict(said)).generation == 2
    for broken in (b"{", b"[]", dump_strict({**said, "generation": "2"})):
        with pytest.raises(EnvelopeRefused) as refused:
            read_held_claims(broken)
        assert refused.value.code == "malformed"
