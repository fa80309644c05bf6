"""Who writes Redis ends no job: cancels that were moved, replayed, forged, expired or are another
sender's, all against one running job, after the control shows that a true one ends its job.

Questions are held to the same: only the sender of a job reads of it, and each question once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts import limits, naming
from contracts.clock import SystemClock
from contracts.envelope import CANCEL_TYPE, seal
from contracts.strict_json import dump_strict
from dispatch.key_records import dump_record
from dispatch.key_store import accept_grant, create_sender, record_grant
from dispatch.queue import FleetQueue
from tests.support.broker import running_broker
from tests.support.fleet import wait_until
from tests.support.hosts import LANE, Host, Sender, listening_host
from tests.support.own_client import leave_cancel, sha256_of, sign_ask, sign_cancel

Job = dict[str, Any]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with running_broker(tmp_path / "broker") as server:
        with listening_host(
            tmp_path / "fleet", server, options=("--concurrency", "2")
        ) as listening:
            yield listening
            listening.release()


@pytest.fixture
def other(host: Host) -> Sender:
    """Another sender, whose jobs this host takes as well."""
    keys = host.home.parent / "mallory" / "keys"
    create_sender(keys, "mallory", SystemClock())
    sender = Sender(keys, "mallory")
    for name in (host.name, "HOSTB"):
        grant = sender.keyring.create_grant(name, host.lanes)
        record_grant(keys, grant)
        if name == host.name:
            held = host.fleet_home / "keys"
            accept_grant(held, dump_record(grant), name, file="grant", clock=SystemClock())
    return sender


def signed_as_a_job(host: Host, job: Job) -> str:
    """Return true claims, signed with the key for jobs: the purpose is part of the key."""
    now = int(time.time())
    claims = {"iss": "alice", "aud": job["aud"], "jti": job["jti"], "iat": now, "exp": now + 60}
    data = dump_strict({**claims, "jobSha256": sha256_of(job), "why": ""})
    return seal(data, CANCEL_TYPE, host.sender.keyring.job_signers(job["aud"]))


def flipped(text: str) -> str:
    """Return `text` with one letter of its signature changed."""
    place = text.index('"mac":"') + 9
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


def ago(seconds: int, life: int = 60) -> dict[str, int]:
    now = int(time.time())
    return {"iat": now - seconds, "exp": now - seconds + life}


FORGERIES: dict[str, tuple[str, Callable[[Host, Sender, Job, Job], str]]] = {
    "another job's, moved": ("moved", lambda h, _o, _j, k: sign_cancel(h.sender, k)),
    "for another host": (
        "unknown_key",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, aud="host:HOSTB"),
    ),
    "for us by another host's key": (
        "unknown_key",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, for_aud="host:HOSTB"),
    ),
    "for us by the lane's key": (
        "foreign_key",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, for_aud=f"lane:{LANE}"),
    ),
    "for the lane of a job of ours": (
        "foreign_job",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, aud=f"lane:{LANE}"),
    ),
    "expired": ("expired", lambda h, _o, j, _k: sign_cancel(h.sender, j, **ago(3_600))),
    "from the future": (
        "not_yet_valid",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, **ago(-limits.SKEW_S - 600)),
    ),
    "without an end": (
        "lifetime",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, **ago(0, limits.CANCEL_TTL_MAX_S + 1)),
    ),
    "another sender's": ("foreign_job", lambda _h, o, j, _k: sign_cancel(o, j)),
    "another sender's in our name": (
        "foreign_key",
        lambda _h, o, j, _k: sign_cancel(o, j, iss="alice"),
    ),
    "for other bytes": (
        "foreign_job",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, jobSha256="0" * 64),
    ),
    "with a surplus claim": (
        "malformed",
        lambda h, _o, j, _k: sign_cancel(h.sender, j, also="x"),
    ),
    "by the key for jobs": ("unknown_key", lambda h, _o, j, _k: signed_as_a_job(h, j)),
    "a job's envelope": ("wrong_type", lambda h, _o, j, _k: h.sender.sign(j)),
    "altered": ("bad_signature", lambda h, _o, j, _k: flipped(sign_cancel(h.sender, j))),
    "no envelope": ("malformed", lambda *_: "cancel it"),
    "far too long": ("too_large", lambda *_: "x" * 5_000_000),
}


def refusals(host: Host, job_id: str, reason: str) -> int:
    return host.log.count(f"cancel_refused job={job_id} reason={reason}")


def test_a_true_cancel_ends_its_job_and_no_other_one_does(host: Host, other: Sender) -> None:
    honest = host.job(payload=host.payload(task="wait until released"))
    attacked = host.job(payload=host.payload(task="wait until released"))
    for job in (honest, attacked):
        host.push(job)
    wait_until(lambda: host.starts == 2, "both run", 90)
    true = sign_cancel(host.sender, honest)
    leave_cancel(host.broker, honest["jti"], true, [host.name])
    ended = host.result(honest["jti"])
    assert [risk.code for risk in ended.risks] == ["cancelled"], "the control: it ends its job"

    host.sender.keyring.create_grant("HOSTB", host.lanes)
    job_id = attacked["jti"]
    for name, (reason, forge) in FORGERIES.items():
        before = refusals(host, job_id, reason)
        leave_cancel(host.broker, job_id, forge(host, other, attacked, honest), [host.name])
        wait_until(
            lambda n=before, r=reason: refusals(host, job_id, r) > n, f"{name}: {reason}", 90
        )
    with host.broker.client() as connection:
        connection.delete(naming.cancel_key(job_id))
        connection.rpush(naming.cancel_key(job_id), "no text")  # another type
        for ring in (b"", b"\xff" * 100_000, job_id.encode(), b"../../etc") * 50:
            connection.publish(naming.control_channel(host.name), ring)
    host.release()
    assert host.result(job_id).status == "completed", "nothing of that touched it"

    with host.broker.client() as connection:
        stored = host.stored(honest["jti"])
        connection.delete(*connection.keys("fd:*"))
    leave_cancel(host.broker, honest["jti"], true, [host.name])
    host.push(honest)
    assert host.result(honest["jti"]) == ended
    assert host.stored(honest["jti"]) == stored
    host.run_honest_job()
    assert host.starts == 3


def asked(host: Host, text: str) -> None:
    queue = FleetQueue.connect(host.broker.url)
    queue.put_ask(host.name, text)
    queue.close()


def test_a_question_is_answered_once_and_to_the_sender_of_the_job_alone(
    host: Host, other: Sender
) -> None:
    host.release()
    job_id = host.push(host.job())
    result = host.result(job_id)
    host.published(job_id)

    def forget() -> None:
        with host.broker.client() as connection:
            connection.delete(naming.result_key(job_id))

    forget()
    true = sign_ask(host.sender, job_id, host.name)
    asked(host, true)
    assert host.result(job_id) == result, "the control: what was lost comes again"
    forget()
    forged = {
        "replayed": true,
        "expired": sign_ask(host.sender, job_id, host.name, **ago(3_600)),
        "not_yet_valid": sign_ask(host.sender, job_id, host.name, **ago(-3_600)),
        "lifetime": sign_ask(host.sender, job_id, host.name, **ago(0, limits.ASK_TTL_MAX_S + 1)),
        "unknown_key": sign_ask(host.sender, job_id, "HOSTB"),
        "malformed": "a question",
        "foreign_key": sign_ask(other, job_id, host.name, iss="alice"),
    }
    for reason, text in forged.items():
        asked(host, text)
        wait_until(lambda r=reason: f"ask_refused reason={r}" in host.log, reason, 60)
    asked(host, sign_ask(other, job_id, host.name))  # true, and of a stranger's job
    asked(host, "x" * 5_000_000)
    host.run_honest_job()
    assert host.stored(job_id) is None
    asked(host, sign_ask(host.sender, job_id, host.name))
    assert host.result(job_id) == result
