"""What an envelope costs beside the least that could be done: an HMAC and JSON of the same."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator

from contracts.envelope import JOB_TYPE, open_envelope, seal
from contracts.job_claims import read_job_claims
from contracts.strict_json import dump_strict
from tests.bench.harness import Row, interleave, timed
from tests.bench.words import task_of
from tests.hostile.envelope.cases import JOB, Reader, key_id, signer

_CALLS = 50  # of each side in a turn: one takes less than a clock tells well


def rows(quick: bool) -> Iterator[Row]:
    """Yield one row for each of the two algorithms."""
    rounds = 20 if quick else 60
    for algorithm, generation in (("HMAC-SHA256", 1), ("Ed25519", 2)):
        yield _row(algorithm, generation, rounds)


def _row(algorithm: str, generation: int, rounds: int) -> Row:
    task = task_of(5_000)
    claims = JOB | {"payload": {"agent": "codex", "task": task, "repo": "/srv", "ticket": "T-1"}}
    key, reader, secret = signer(key_id(generation)), Reader(), bytes(32)

    def bare() -> None:
        data = json.dumps(claims).encode()
        mac = hmac.digest(secret, data, hashlib.sha256)
        text = json.dumps({"payload": data.decode(), "mac": mac.hex()})
        outer = json.loads(text)
        again = outer["payload"].encode()
        assert hmac.compare_digest(mac.hex(), hmac.digest(secret, again, hashlib.sha256).hex())
        json.loads(again)

    def ours() -> None:
        text = seal(dump_strict(claims), JOB_TYPE, [key])
        read_job_claims(open_envelope(text, reader, JOB_TYPE).payload)

    def each(act: object) -> float:
        assert callable(act)
        return timed(lambda: [act() for _ in range(_CALLS)]) / _CALLS

    each(ours)
    each(bare)
    a, b = interleave(lambda: each(ours), lambda: each(bare), rounds=rounds)
    return Row(f"seal and open a job, 5 KB, {algorithm}", "bare HMAC and JSON", None, a, b)
