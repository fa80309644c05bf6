"""A sender's desk for tests: a home, an identity, hosts that were granted keys, a real broker.

Hosts sign with the keys they were given, in folders of their own, as a listener does.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from contracts.clock import ManualClock, SystemClock
from contracts.dispatch_result import DispatchResult, ResultClaims
from contracts.envelope import JOB_TYPE, RESULT_TYPE, open_envelope, seal
from contracts.run_agent import RunAgentResult, Status
from dispatch.client import FleetClient
from dispatch.key_records import dump_record
from dispatch.key_store import accept_grant, create_sender, record_grant
from dispatch.keyring import HostKeyring, SenderKeyring
from dispatch.queue import FleetQueue, StoredAs
from dispatch.settings import Settings, load_settings
from tests.support.broker import Broker

PAYLOAD: dict[str, Any] = {
    "agent": "codex",
    "task": "mend the test",
    "repo": "/home/me/src/app",
    "ticket": "FIX-1",
}


class ShiftedClock(SystemClock):
    """The machine's clocks, the wall's shifted."""

    def __init__(self, ahead_s: float) -> None:
        self._ahead_s = ahead_s

    def wall(self) -> float:
        """See Clock.wall."""
        return super().wall() + self._ahead_s


class Desk:
    """One sender and its hosts on one broker."""

    def __init__(self, home: Path, broker: Broker, sender: str = "alice") -> None:
        self.home = home
        self.broker = broker
        self.clock = SystemClock()
        self.environ = {
            "FLEET_DISPATCH_HOME": str(home),
            "FLEET_DISPATCH_REDIS_URL": broker.url,
            "USER": sender,
        }
        self.settings: Settings = load_settings(environ=self.environ)
        create_sender(self.settings.places.keys_dir, sender, self.clock)

    def enrol(self, host: str, *lanes: str) -> None:
        """Grant `host` keys and accept them in that host's own folder."""
        keys = self.settings.places.keys_dir
        ring = SenderKeyring.load(keys, self.settings.sender_name, self.clock)
        grant = ring.create_grant(host, lanes)
        record_grant(keys, grant)
        accept_grant(self.keys_of(host), dump_record(grant), host, file="grant", clock=self.clock)

    def keys_of(self, host: str) -> Path:
        """Return the keys folder of a host."""
        return self.home.parent / f"{self.home.name}-{host}" / "keys"

    def host_ring(self, host: str) -> HostKeyring:
        """Return the ring of a host."""
        return HostKeyring.load(self.keys_of(host), host, self.clock)

    def client(self, *, ahead_s: float = 0.0) -> FleetClient:
        """Return a client of this desk, whose wall clock may be ahead of the others'."""
        return FleetClient.open(self.settings, clock=ShiftedClock(ahead_s))

    def queue(self) -> FleetQueue:
        """Return the queue."""
        return FleetQueue.connect(self.broker.url)

    def queued(self, queue_name: str) -> list[str]:
        """Return the job ids in a queue, first in first."""
        with self.broker.client() as redis:
            found: Any = redis.lrange(f"rq:queue:{queue_name}", 0, -1)
            return [item.decode() for item in found]

    def rq_call(self, job_id: str) -> Any:
        """Return the call inside RQ's hash: [function, instance, args, kwargs]."""
        with self.broker.client() as redis:
            data: Any = redis.hget(f"rq:job:{job_id}", "data")
            return json.loads(zlib.decompress(data))

    def job_bytes(self, job_id: str, host: str) -> bytes:
        """Return the payload bytes of a queued job, as `host` verifies them."""
        return open_envelope(self.rq_call(job_id)[2][0], self.host_ring(host), JOB_TYPE).payload

    def sign_result(
        self,
        job_id: str,
        host: str,
        *,
        run: RunAgentResult | None = None,
        ring: HostKeyring | None = None,
        claims: dict[str, Any] | None = None,
        outer: dict[str, Any] | None = None,
    ) -> str:
        """Return the envelope that `host` would store; `claims` and `outer` change fields of it."""
        signer = (ring or self.host_ring(host)).result_signer(self.settings.sender_name)
        result = run or result_with(Status.COMPLETED)
        dispatch = DispatchResult(
            jobId=job_id,
            kind="run_agent",
            target=f"host:{host}",
            ok=result.status is Status.COMPLETED,
            exitCode=0,
            stdoutTail=result.to_json(),
        ).model_copy(update=outer or {})
        statement = ResultClaims(
            iss=host,
            aud=self.settings.sender_name,
            jti=job_id,
            iat=int(self.clock.wall()),
            jobSha256=hashlib.sha256(self.job_bytes(job_id, host)).hexdigest(),
            payload=dispatch,
        )
        document = statement.model_dump(mode="json") | (claims or {})
        return seal(json.dumps(document).encode(), RESULT_TYPE, [signer])

    def answer(self, job_id: str, host: str, status: Status = Status.COMPLETED) -> StoredAs:
        """Store the result of a job as its host does."""
        envelope = self.sign_result(job_id, host, run=result_with(status))
        return self.queue().store_result(job_id, envelope)

    def beat(self, host: str, *lanes: str, seconds: int = 30, **more: Any) -> None:
        """Write a heartbeat that lives for `seconds`."""
        text = json.dumps({"host": host, "os": "Linux x86_64", "lanes": lanes, **more})
        with self.broker.client() as redis:
            redis.set(f"fd:host:{host}", text, ex=seconds)
            redis.zadd("fd:hosts", {host: self.clock.wall()})


def result_with(status: Status, summary: str = "did it", **more: Any) -> RunAgentResult:
    """Return a run_agent result."""
    return RunAgentResult(
        status=status,
        summary=summary,
        changed_files=("a.py",),
        tests_attempted=("pytest => exit 0",),
        known_risks=(),
        needs_human_review=False,
        agent="codex",
        durationSeconds=1.5,
        worktreePath="/home/me/src/app-agents/x",
        **more,
    )


def sender_with_grants(
    *hosts: tuple[str, Sequence[str]], clock: ManualClock, folder: Path, name: str = "alice"
) -> SenderKeyring:
    """Return a sender's ring on disk in `folder`, with grants noted."""
    create_sender(folder, name, clock)
    ring = SenderKeyring.load(folder, name, clock)
    for host, lanes in hosts:
        record_grant(folder, ring.create_grant(host, lanes))
    return SenderKeyring.load(folder, name, clock)
