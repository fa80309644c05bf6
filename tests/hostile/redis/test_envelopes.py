"""Envelopes that nobody meant for this host, or that meant something else: none starts anything,
each is buried with one word of reason, and the next honest job completes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.clock import SystemClock
from contracts.envelope import JOB_TYPE, RESULT_TYPE, seal
from contracts.ids import new_job_id
from contracts.naming import claim_key, job_key, lane_audience, lane_queue, result_key
from contracts.strict_json import dump_strict
from dispatch.key_store import create_sender
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host, Sender


def tampered(host: Host, claims: dict[str, Any]) -> str:
    outer = json.loads(host.sender.sign(claims))
    inner = json.loads(base64.b64decode(outer["payload"]))
    inner["payload"]["task"] = "do something else"
    outer["payload"] = base64.b64encode(dump_strict(inner)).decode()
    return json.dumps(outer)


def signed_by_a_stranger(host: Host, claims: dict[str, Any]) -> str:
    keys = host.home / "stranger"
    create_sender(keys, host.sender.name, SystemClock())
    return Sender(keys, host.sender.name).sign(claims)


def signed_for_the_lane(host: Host, claims: dict[str, Any]) -> str:
    return host.sender.sign(claims, for_aud=lane_audience(LANE))


def changed(**changes: Any) -> Callable[[Host, dict[str, Any]], str]:
    return lambda host, claims: host.sender.sign(claims | changes, for_aud=claims["aud"])


def as_a_result(host: Host, claims: dict[str, Any]) -> str:
    return seal(dump_strict(claims), RESULT_TYPE, host.sender.keyring.job_signers(claims["aud"]))


def with_a_repeated_claim(host: Host, claims: dict[str, Any]) -> str:
    text = dump_strict(claims)[:-1] + b',"kind":"run_agent"}'
    return seal(text, JOB_TYPE, host.sender.keyring.job_signers(claims["aud"]))


def addressed(aud: str, *, lane: str = LANE) -> Callable[[Host, dict[str, Any]], str]:
    """Return an envelope that is honest, and for somebody else."""
    return lambda host, claims: host.sender.sign(claims | {"aud": aud, "lane": lane})


NOW = int(time.time())
DAY = 24 * 3_600
CASES: dict[str, tuple[Callable[[Host, dict[str, Any]], str], str]] = {
    "tampered": (tampered, "bad_signature"),
    "of a stranger under a known name": (signed_by_a_stranger, "bad_signature"),
    "with another of the sender's keys": (signed_for_the_lane, "foreign_key"),
    "in another sender's name": (changed(iss="bob"), "foreign_key"),
    "for another host, with this host's key": (changed(aud="host:OTHER"), "foreign_key"),
    "for another host": (addressed("host:OTHER"), "unknown_key"),
    "for another lane": (addressed("lane:OTHER", lane="OTHER"), "unknown_key"),
    "for a lane that is not served": (changed(lane="OTHER"), "lane"),
    "of the future": (changed(iat=NOW + DAY, exp=NOW + 2 * DAY), "not_yet_valid"),
    "living too long": (changed(exp=NOW + 30 * DAY), "lifetime"),
    "ending before it began": (changed(exp=NOW - 10), "lifetime"),
    "moved to another id": (changed(jti=new_job_id()), "moved"),
    "with a malformed id": (changed(jti="../../x"), "malformed"),
    "with an unknown claim": (changed(root=True), "malformed"),
    "with a missing claim": (lambda host, claims: changed()(host, _without(claims)), "malformed"),
    "with a claim twice": (with_a_repeated_claim, "malformed"),
    "of another type": (as_a_result, "wrong_type"),
    "that is no JSON": (lambda _host, _claims: "{", "malformed"),
    "that is empty": (lambda _host, _claims: "", "malformed"),
    "with a lone surrogate": (lambda _host, _claims: '"\\ud800"', "malformed"),
    "unsigned": (
        lambda host, claims: json.dumps(json.loads(host.sender.sign(claims)) | {"sigs": []}),
        "malformed",
    ),
}


def _without(claims: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in claims.items() if name != "kind"}


@pytest.mark.parametrize("name", CASES)
def test_an_envelope_is_refused_without_an_answer(name: str, attacked: Host) -> None:
    """K68: whatever selects host, lane, kind, time or id is inside the signature."""
    make, reason = CASES[name]
    claims = attacked.job()
    starts, letters = attacked.starts, len(attacked.dead_letters())
    job_id = attacked.push(claims, envelope=make(attacked, claims))
    wait_until(lambda: len(attacked.dead_letters()) > letters, "it is buried")
    letter = attacked.dead_letters()[0]
    assert (letter["jobId"], letter["reason"]) == (job_id, reason)
    assert attacked.stored(job_id) is None
    assert attacked.starts == starts
    assert "do it" not in attacked.log


def test_the_next_honest_job_completes_after_all_of_them(attacked: Host) -> None:
    for make, _ in CASES.values():
        claims = attacked.job()
        attacked.push(claims, envelope=make(attacked, claims))
    attacked.run_honest_job()


@pytest.mark.parametrize("forgotten", ["claims and results", "everything"])
def test_a_replay_starts_nothing_whatever_was_deleted(forgotten: str, attacked: Host) -> None:
    claims = attacked.job()
    envelope = attacked.sender.sign(claims)
    first = attacked.result(attacked.push(claims, envelope=envelope))
    attacked.published(claims["jti"])
    stored = attacked.stored(claims["jti"])
    starts = attacked.starts
    with attacked.broker.client() as connection:
        if forgotten == "everything":
            connection.flushall()
        else:
            jti = claims["jti"]
            connection.delete(claim_key(jti), result_key(jti), job_key(jti))
    attacked.push(claims, envelope=envelope)
    assert attacked.result(claims["jti"]) == first
    assert attacked.stored(claims["jti"]) == stored, "the same signed bytes come again"
    assert attacked.starts == starts


def test_twenty_copies_of_one_job_start_once(attacked: Host) -> None:
    starts = attacked.starts
    claims = attacked.job()
    attacked.push(claims)
    with attacked.broker.client() as connection:
        queue = f"rq:queue:{attacked.queue_name}"
        connection.rpush(queue, *[claims["jti"]] * 20)
        connection.rpush(f"rq:queue:{lane_queue(LANE)}", *[claims["jti"]] * 20)
        attacked.result(claims["jti"])
        wait_until(lambda: connection.llen(queue) == 0, "every copy is taken")
    attacked.run_honest_job()
    assert attacked.starts == starts + 2


def test_a_request_that_is_malformed_gets_a_signed_answer_with_every_problem(
    attacked: Host,
) -> None:
    payload = attacked.payload(ticket="a/b", agent="nobody", colour="red")
    result = attacked.result(attacked.push(attacked.job(payload=payload)))
    assert result.status == "failed"
    for field in ("ticket", "agent", "colour"):
        assert field in result.summary
    assert result.worktreePath == ""


def test_a_request_that_the_policy_forbids_gets_a_signed_answer(
    attacked: Host, tmp_path: Path
) -> None:
    starts = attacked.starts
    payload = attacked.payload(repo=str(tmp_path))
    result = attacked.result(attacked.push(attacked.job(payload=payload)))
    assert result.status == "failed"
    assert "allowed roots" in result.summary
    assert attacked.starts == starts


def test_an_unknown_kind_gets_a_signed_answer(attacked: Host) -> None:
    result = attacked.result(attacked.push(attacked.job(kind="mail")))
    assert result.status == "failed"
    assert "kind" in result.summary
