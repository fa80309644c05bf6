"""The opener and strict JSON under mutations of a recorded corpus.

Whatever the bytes: a value that a lenient parser reads in the same way, or the one refusal; an
envelope that was signed as it stands, or the one refusal. A file that once broke something is put
into `corpus/` and is tried for ever. For longer than the gate takes:

    .venv/bin/python tests/hostile/envelope/test_fuzz.py SECONDS
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.envelope import JOB_TYPE, open_envelope
from contracts.errors import EnvelopeRefused, InvalidRequest
from contracts.job_claims import read_job_claims
from contracts.strict_json import dump_strict, parse_strict
from tests.hostile.envelope.cases import PAYLOAD, Reader, key_id

CORPUS = {path.name: path.read_bytes() for path in (Path(__file__).parent / "corpus").iterdir()}
READER = Reader()
SIGNED = {PAYLOAD, b"{}"}
_TOKENS = (b'"', b"\\", b"\\u", b"\\ud800", b"{", b"}", b"[", b"]", b",", b":", b"1", b"1e9", b"-")
_TOKENS += (b"\xef\xbb\xbf", b"\x00", b"\xff", b"=", b"==", b"NaN", b"true", b"null", b" ", b"v")

Edit = Callable[[bytes, random.Random], bytes]


def _flip(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]


def _insert(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(_TOKENS) + data[at:]


def _cut(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + data[at + dice.randrange(1, 20) :]


def _repeat(data: bytes, dice: random.Random) -> bytes:
    at, length = dice.randrange(len(data) + 1), dice.randrange(1, 60)
    return data[:at] + data[at : at + length] * dice.choice((2, 3, 40)) + data[at + length :]


def _splice(data: bytes, dice: random.Random) -> bytes:
    other = CORPUS[dice.choice(sorted(CORPUS))]
    return data[: dice.randrange(len(data) + 1)] + other[dice.randrange(len(other) + 1) :]


EDITS: tuple[Edit, ...] = (_flip, _insert, _cut, _repeat, _splice)


def mutated(data: bytes, dice: random.Random) -> bytes:
    for _ in range(dice.randrange(1, 4)):
        data = dice.choice(EDITS)(data, dice)
    return data


def check(data: bytes) -> None:
    """Hold what both readers say of `data` against what may be said."""
    try:
        value = parse_strict(data)
    except InvalidRequest as refusal:
        assert refusal.problems[0].remedy
    else:
        assert json.loads(data.decode("utf-8")) == value
        assert parse_strict(dump_strict(value)) == value
    try:
        opened = open_envelope(data, READER, JOB_TYPE)
    except EnvelopeRefused:
        pass
    else:
        assert opened.payload in SIGNED
        assert opened.kid in {key_id(1).text, key_id(2).text}
    try:
        read_job_claims(data)
    except EnvelopeRefused:
        return


def test_the_corpus_holds_honest_envelopes_and_a_file_for_each_way_to_be_wrong() -> None:
    honest = [name for name, data in CORPUS.items() if name.startswith("honest")]
    assert len(honest) >= 3
    assert len(CORPUS) >= 25
    for name in honest:
        assert open_envelope(CORPUS[name], READER, JOB_TYPE).payload in SIGNED


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_a_recorded_file_is_read_or_refused(name: str) -> None:
    check(CORPUS[name])


@given(st.sampled_from(sorted(CORPUS)), st.integers(0, 2**32))
def test_a_mutated_file_is_read_or_refused(name: str, seed: int) -> None:
    check(mutated(CORPUS[name], random.Random(seed)))


def main(seconds: float) -> None:
    """Mutate for so many seconds; write what breaks something into the corpus and stop."""
    seed, ends = random.SystemRandom().randrange(2**32), time.monotonic() + seconds
    dice, tried = random.Random(seed), 0
    print(f"seed {seed}")
    while time.monotonic() < ends:
        data = mutated(CORPUS[dice.choice(sorted(CORPUS))], dice)
        try:
            check(data)
        except BaseException:
            found = Path(__file__).parent / "corpus" / f"found-{seed}-{tried}"
            found.write_bytes(data)
            print(f"broken by {found}")
            raise
        tried += 1
    print(f"{tried} mutations, nothing broke")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
