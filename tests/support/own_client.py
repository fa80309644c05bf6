"""The sender of `tests.support.hosts` as a program: its client over its own keys and record, and
signed orders that no honest client would send."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from contracts import naming
from contracts.envelope import ASK_TYPE, CANCEL_TYPE, seal
from contracts.ids import new_job_id
from contracts.strict_json import dump_strict
from dispatch.client import FleetClient
from dispatch.keys import ASK, CANCEL
from dispatch.queue import FleetQueue
from dispatch.sent import SentJobs
from tests.support.broker import Broker
from tests.support.hosts import LANE, Host, Sender


@contextmanager
def own_client(host: Host) -> Iterator[FleetClient]:
    """Yield the client of the sender who was granted `host`."""
    sent = SentJobs(host.sender.keys_dir.parent / "state" / "sent.sqlite3")
    with FleetClient(host.sender.keyring, FleetQueue.connect(host.broker.url), sent) as client:
        yield client


def send(client: FleetClient, host: Host, *, for_lane: bool = False, **payload: Any) -> str:
    """Queue an honest job and return its id."""
    targets = None if for_lane else [host.name]
    (job,) = client.enqueue(host.payload(**payload), lane=LANE, targets=targets)
    return job.job_id


def sha256_of(claims: dict[str, Any]) -> str:
    """Return the digest that results and cancels of the job with these claims are bound to."""
    return hashlib.sha256(dump_strict(claims)).hexdigest()


def sign_cancel(
    sender: Sender, job: dict[str, Any], *, for_aud: str | None = None, **changes: Any
) -> str:
    """Return a cancel of `job` with `changes`, signed with the key for its own audience or
    another."""
    now = int(time.time())
    claims = {
        "iss": sender.name,
        "aud": job["aud"],
        "jti": job["jti"],
        "iat": now,
        "exp": now + 3_600,
        "jobSha256": sha256_of(job),
        "why": "",
    } | changes
    signers = sender.keyring.signers(CANCEL, for_aud or claims["aud"])
    return seal(dump_strict(claims), CANCEL_TYPE, signers)


def sign_ask(sender: Sender, job_id: str, host: str, **changes: Any) -> str:
    """Return a question about a job's result to `host`, with `changes`."""
    now = int(time.time())
    claims = {
        "iss": sender.name,
        "aud": naming.host_audience(host),
        "jti": job_id,
        "iat": now,
        "exp": now + 60,
        "nonce": new_job_id(),
        "what": "result",
        "fromSeq": 0,
    } | changes
    return seal(dump_strict(claims), ASK_TYPE, sender.keyring.signers(ASK, claims["aud"]))


def leave_cancel(broker: Broker, job_id: str, text: str, hosts: Sequence[str]) -> None:
    """Put a cancel under a job's key and ring `hosts`, as a sender does."""
    queue = FleetQueue.connect(broker.url)
    queue.put_cancel(job_id, text, hosts)
    queue.close()


def forget_tree(repo: Path, job_id: str) -> None:
    """Remove what a run left beside `repo`: a second start must not fail for that alone."""
    shutil.rmtree(Path(naming.agents_folder(str(repo))) / job_id, ignore_errors=True)
    branch = naming.job_branch(job_id, "T-1")
    for words in (("worktree", "prune"), ("branch", "-D", branch)):
        subprocess.run(["git", "-C", str(repo), *words], check=False, capture_output=True)
