"""From a run's result to the signed message, and what counts as declined."""

from __future__ import annotations

import pytest

from contracts.dispatch_result import ResultClaims
from contracts.envelope import RESULT_TYPE, open_envelope
from contracts.run_agent import Risk, RunAgentResult, Status
from tests.support.hmac_keys import HmacKey, Keys
from worker.journal.records import JobRecord
from worker.journal.schema import JobState
from worker.runs.outcome import EXIT_CODES, lost_run, seal_result, was_declined

RECORD = JobRecord(
    jti="a" * 20,
    iss="alice",
    kind="run_agent",
    lane="L",
    aud="lane:L",
    job_sha256="0" * 64,
    exp=0,
    claimed_at=1_700_000_000.0,
    owner="x",
    facts={"agent": "codex", "mode": "build"},
    worktree="",
    result=None,
    sealed=None,
    published_at=None,
    state=JobState.STARTED,
    attempt=2,
)


def failed(**changes: object) -> RunAgentResult:
    lost = lost_run(RECORD, host="A", worktree="", code="x", why="y")
    return lost.model_copy(update={"attempts": 0, **changes})


@pytest.mark.parametrize("status", Status)
def test_the_message_is_bound_to_the_job_and_says_how_it_ended(status: Status) -> None:
    result = failed(status=status).to_json().encode()
    key = HmacKey("k", b"s" * 32, payload_type=RESULT_TYPE)
    text = seal_result(RECORD, result, key, host="A", now=1_700_000_060.5)
    claims = ResultClaims.model_validate_json(open_envelope(text, Keys(key), RESULT_TYPE).payload)
    assert (claims.iss, claims.aud, claims.jti) == ("A", "alice", RECORD.jti)
    assert claims.jobSha256 == RECORD.job_sha256
    outer = claims.payload
    assert outer.stdoutTail.encode() == result
    assert outer.ok == (status is Status.COMPLETED)
    assert outer.exitCode == EXIT_CODES[status]
    assert (outer.target, outer.kind) == ("lane:L", "run_agent")
    assert (outer.startedAt, outer.finishedAt) == (
        "2023-11-14T22:13:20.000Z",
        "2023-11-14T22:14:20.500Z",
    )


def test_a_lost_run_names_its_tree_and_has_every_key() -> None:
    result = lost_run(RECORD, host="A", worktree="/tree", code="listener_lost", why="it was lost")
    assert (result.status, result.agent, result.attempts) == ("failed", "codex", 2)
    assert "/tree" in result.summary
    assert "not started again" in result.summary
    assert result.needs_human_review
    nobody_knows = {"exitCode", "reason", "usage"}
    assert None not in result.model_dump(exclude=nobody_knows).values()


@pytest.mark.parametrize(
    ("changes", "declined"),
    [
        ({}, True),
        ({"risks": (Risk(code="refused", message="m"),)}, True),
        ({"status": Status.RATE_LIMITED}, False),
        ({"attempts": 1}, False),
        ({"worktreePath": "/tree"}, False),
        ({"risks": (Risk(code="interrupted", message="m"),)}, False),
        ({"risks": (Risk(code="internal_error", message="m"),)}, False),
    ],
)
def test_declined_is_what_never_began_because_of_this_host(
    changes: dict[str, object], declined: bool
) -> None:
    assert was_declined(failed(**changes)) == declined
