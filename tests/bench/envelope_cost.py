"""What a signed job costs: seal and open beside bare HMAC and JSON, `enqueue` beside RQ's own.

Prints times and ratios; it asserts nothing, because a time is no property of the code alone. Both
sides of a ratio are taken in turns, so that a busy machine slows both. `enqueue` is measured as
shipped: the sender's durable record on disk, a real broker, one connection each.

    .venv/bin/python tests/bench/envelope_cost.py [--rounds 300] [--folder DIR]
"""

from __future__ import annotations

import argparse
import hashlib
import hmac
import json
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from rq import Queue  # noqa: E402 - the project's own folder comes first
from rq.serializers import JSONSerializer  # noqa: E402 - as above

from contracts.envelope import JOB_TYPE, open_envelope, seal  # noqa: E402 - as above
from contracts.job_claims import read_job_claims  # noqa: E402 - as above
from contracts.strict_json import dump_strict  # noqa: E402 - as above
from tests.dispatch.desk import Desk  # noqa: E402 - as above
from tests.hostile.envelope.cases import JOB, Reader, key_id, signer  # noqa: E402 - as above
from tests.support.broker import running_broker  # noqa: E402 - as above

TASK = "Mend the test, and say what was wrong. " * 128  # 5 KB


def main() -> None:
    """Take the times and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to be measured")
    options = parser.parse_args()
    for algorithm, generation in (("HMAC-SHA256", 1), ("Ed25519", 2)):
        measure_envelope(algorithm, generation, options.rounds)
    with tempfile.TemporaryDirectory(prefix="fd-bench-", dir=options.folder) as place:
        measure_enqueue(Path(place), options.rounds)


def measure_envelope(algorithm: str, generation: int, rounds: int) -> None:
    """Print what seal and open of a 5 KB job cost beside HMAC and JSON of the same bytes."""
    claims = JOB | {"payload": {"agent": "codex", "task": TASK, "repo": "/srv", "ticket": "T-1"}}
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

    _compare(f"seal and open, 5 KB, {algorithm}", ours, "bare HMAC and JSON", bare, rounds * 10)


def measure_enqueue(place: Path, rounds: int) -> None:
    """Print what `enqueue` costs beside RQ's, one job of the same size at a time."""
    with running_broker(place / "broker") as broker:
        desk = Desk(place / "alice", broker)
        desk.enrol("GAMING", "A")
        payload = {"agent": "codex", "task": TASK, "repo": "/srv/app", "ticket": "T-1"}
        with desk.client() as client, broker.client() as redis:
            queue = Queue("plain", connection=redis, serializer=JSONSerializer)

            def ours() -> None:
                client.enqueue(payload, lane="A", targets=["GAMING"])

            def keyed() -> None:
                client.enqueue(
                    payload, lane="A", targets=["GAMING"], idempotency_key=secrets.token_hex(8)
                )

            def plain() -> None:
                queue.enqueue("nobody.runs_this", TASK)

            for what, act in (("enqueue", ours), ("enqueue with a key", keyed)):
                desk.beat("GAMING", "A")  # its host lives, as a rule
                _compare(what, act, "RQ's enqueue", plain, rounds)


def _compare(
    what: str, ours: Callable[[], None], beside: str, bare: Callable[[], None], rounds: int
) -> None:
    times: tuple[list[float], list[float]] = ([], [])
    for act in (ours, bare) * 3:
        act()
    for _ in range(rounds):
        for act, taken in zip((ours, bare), times, strict=True):
            started = time.perf_counter()
            act()
            taken.append(time.perf_counter() - started)
    one, other = (statistics.median(taken) * 1e6 for taken in times)
    print(f"{what}: {one:.0f} us, {beside}: {other:.0f} us, ratio {one / other:.2f}")


if __name__ == "__main__":
    main()
