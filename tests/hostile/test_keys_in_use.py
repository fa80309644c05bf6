"""Keys that change under a listener that runs: accepted, rotated and revoked without a restart."""

from __future__ import annotations

import time

from contracts.clock import SystemClock
from dispatch.key_records import dump_record
from dispatch.key_store import accept_grant
from dispatch.known_hosts import known_hosts
from dispatch.queue import FleetQueue
from dispatch.revocations import Revocation, revoke
from dispatch.rotating import rotate
from tests.support.fleet import wait_until
from tests.support.hosts import Host


def _is_run(host: Host, envelope: str, claims: dict[str, object]) -> bool:
    host.push(claims, envelope=envelope)
    job_id = str(claims["jti"])
    wait_until(
        lambda: host.stored(job_id) is not None or _is_buried(host, job_id),
        "the job to be run or refused",
        120.0,
    )
    return host.stored(job_id) is not None


def _is_buried(host: Host, job_id: str) -> bool:
    return any(letter["jobId"] == job_id for letter in host.dead_letters())


def test_a_listener_takes_a_rotation_in_and_a_revoked_generation_out(attacked: Host) -> None:
    """One story, on one listener that is never started anew."""
    host, sender = attacked, attacked.sender
    keys = host.fleet_home / "keys"
    old = [host.job() for _ in range(2)]
    texts = [sender.sign(claims) for claims in old]
    assert _is_run(host, texts[0], old[0]), "the control: the first generation signs"

    ring = sender.keyring
    made = rotate(
        ring,
        algorithm="Ed25519",
        out=sender.keys_dir.parent / "grants",
        days=30,
        grant_days=30,
        own_host="NOBODY",
        clock=SystemClock(),
    )
    aud = host.aud
    assert len(sender.keyring.job_signers(aud)) == 2, "both sign, as long as the host is behind"
    (grant,) = (item for item, _ in made.grants if item.host == host.name)
    accept_grant(keys, dump_record(grant), host.name, file="grant", clock=SystemClock())

    queue = FleetQueue.connect(host.broker.url)
    try:
        wait_until(
            lambda: known_hosts(ring, queue) and len(sender.keyring.job_signers(aud)) == 1,
            "the listener to prove in its heartbeat that it holds the new generation",
            120.0,
        )
    finally:
        queue.close()
    (new,) = sender.keyring.job_signers(aud)
    assert new.kid == f"{sender.name}/2/job/{aud}"
    claims = host.job()
    assert _is_run(host, sender.sign(claims), claims), "a job of the new generation alone"

    before = host.journal_history(str(old[1]["jti"]))
    revoke(keys, Revocation(sender=sender.name, generation=1))
    time.sleep(1.0)  # the promise: within a second
    assert not _is_run(host, texts[1], old[1])
    assert host.journal_history(str(old[1]["jti"])) == before == []
    claims = host.job()
    assert _is_run(host, sender.sign(claims), claims), "the next honest job runs"
