"""Writes contracts/vectors/: what another program needs to speak the wire, with test keys alone.

Nothing in it is random, so the files change only when the wire does.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from contracts.envelope import JOB_TYPE, seal  # noqa: E402 - the project is not installed where this may run
from dispatch.algorithms import checking_part  # noqa: E402 - as above
from dispatch.keys import BY_HOST, PAYLOAD_TYPES, KeyId, derive_secret  # noqa: E402 - as above
from tests.hostile.envelope import cases  # noqa: E402 - as above

FOLDER = PROJECT / "contracts" / "vectors"
NOTE = "TEST KEYS: everybody knows this master. Never accept them outside a test."
_SHA256 = hashlib.sha256(cases.PAYLOAD).hexdigest()
_RESULT = {
    "jobId": cases.JOB["jti"],
    "kind": "run_agent",
    "target": "host:TEST-HOST",
    "ok": False,
    "exitCode": 4,
    "stdoutTail": "{}",
}
CLAIMS: dict[str, dict[str, Any]] = {
    "cancel": {"exp": cases.NOW + 600, "jobSha256": _SHA256},
    "ask": {"exp": cases.NOW + 600, "nonce": "0" * 32, "what": "result", "fromSeq": 0},
    "result": {"jobSha256": _SHA256, "payload": _RESULT},
    "event": {"fromSeq": 0, "events": []},
    "delivery": {"jobSha256": _SHA256, "code": "accepted", "state": "received"},
    "held": {"generation": 1, "grantedAt": cases.NOW},
    "receipt": {"jobSha256": _SHA256, "code": "abandoned"},
}


def _key(key_id: KeyId) -> dict[str, Any]:
    algorithm = cases.ALGORITHM_OF[key_id.generation]
    secret = derive_secret(cases.TEST_MASTER, key_id, algorithm)
    record = {"kid": key_id.text, "alg": algorithm, "purpose": key_id.purpose}
    record |= {"payloadType": PAYLOAD_TYPES[key_id.purpose], "secretHex": secret.hex()}
    if algorithm == "Ed25519":
        record["publicHex"] = checking_part(algorithm, secret).hex()
    return record


def _derivations() -> dict[str, Any]:
    return {
        "note": NOTE,
        "masterHex": cases.TEST_MASTER.hex(),
        "keys": [_key(key_id) for key_id in (*cases.KNOWN, *cases.KNOWN_AUDIENCES)],
    }


def _payload(purpose: str) -> bytes:
    if purpose == "job":
        return cases.PAYLOAD
    ends = ("TEST-HOST", "test-sender") if purpose in BY_HOST else ("test-sender", "host:TEST-HOST")
    claims = {"iss": ends[0], "aud": ends[1], "jti": cases.JOB["jti"], "iat": cases.NOW}
    return json.dumps(claims | CLAIMS[purpose], separators=(",", ":")).encode()


def _envelopes() -> dict[str, Any]:
    found = []
    for purpose, kind in PAYLOAD_TYPES.items():
        for generations in ((1,), (2,), (2, 1)):
            ids = [cases.key_id(number, purpose) for number in generations]
            payload = _payload(purpose)
            found.append(
                {
                    "name": f"{purpose}, signed by {' and '.join(key.text for key in ids)}",
                    "payloadType": kind,
                    "payloadBase64": base64.b64encode(payload).decode(),
                    "kid": ids[0].text,
                    "envelope": seal(payload, kind, [cases.signer(key) for key in ids]),
                }
            )
    return {"note": NOTE, "envelopes": found}


def _refusals() -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        {"name": name, "code": code, "envelope": text}
        for name, (text, code) in cases.outer_texts().items()
    ]
    found += [
        {"name": name, "code": "malformed", "envelopeBase64": base64.b64encode(data).decode()}
        for name, data in cases.TEXTS.items()
        if len(data) < 20_000
    ]
    claims = [
        {"name": name, "code": code, "envelope": text}
        for name, (text, code) in cases.inner_texts().items()
    ]
    reader = {"host": "TEST-HOST", "lanes": ["TEST"], "now": cases.NOW, "jobId": cases.JOB["jti"]}
    return {
        "note": NOTE,
        "payloadType": JOB_TYPE,
        "refusedEnvelopes": found,
        "reader": reader,
        "refusedClaims": claims,
    }


def vector_texts() -> dict[str, str]:
    """Return the text of each file by its name."""
    documents = {
        "derivations": _derivations(),
        "envelopes": _envelopes(),
        "refusals": _refusals(),
    }
    return {
        f"{name}.json": json.dumps(document, indent=1, ensure_ascii=True) + "\n"
        for name, document in documents.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in vector_texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")
