"""Any bit flipped, any field moved between two valid messages: never another message."""

from __future__ import annotations

import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.envelope import JOB_TYPE, open_envelope, seal
from contracts.errors import EnvelopeRefused
from dispatch.keys import PAYLOAD_TYPES
from tests.hostile.envelope.cases import PAYLOAD, Reader, key_id, sealed, signer

READER = Reader()
GENERATIONS = st.sampled_from([1, 2])


@pytest.mark.parametrize("generation", [1, 2])
def test_any_bit_flipped_anywhere_is_refused(generation: int) -> None:
    """Every bit of the text, one after the other; spaces between tokens do not exist in it."""
    text = sealed(generation, b'{"n":1}').encode()
    assert open_envelope(text, READER, JOB_TYPE).payload == b'{"n":1}'
    for position, bit in itertools.product(range(len(text)), range(8)):
        changed = bytearray(text)
        changed[position] ^= 1 << bit
        with pytest.raises(EnvelopeRefused):
            open_envelope(bytes(changed), READER, JOB_TYPE)


@given(payload=st.binary(max_size=60), generation=GENERATIONS, data=st.data())
def test_a_changed_byte_never_changes_what_is_verified(
    payload: bytes, generation: int, data: st.DataObject
) -> None:
    text = bytearray(sealed(generation, payload).encode())
    position = data.draw(st.integers(0, len(text) - 1))
    action = data.draw(st.sampled_from(["replace", "remove", "insert"]))
    new = bytes([data.draw(st.integers(0, 255))])
    text[position : position + (action != "insert")] = b"" if action == "remove" else new
    try:
        opened = open_envelope(bytes(text), READER, JOB_TYPE)
    except EnvelopeRefused:
        return
    assert (opened.payload, opened.kid) == (payload, key_id(generation).text)


def _fields(outer: dict[str, Any]) -> dict[str, Any]:
    (signature,) = outer["sigs"]
    return {"payloadType": outer["payloadType"], "payload": outer["payload"], **signature}


def _message(fields: dict[str, Any]) -> str:
    signature = {"kid": fields["kid"], "mac": fields["mac"]}
    outer = {"v": 1, "payloadType": fields["payloadType"], "payload": fields["payload"]}
    return json.dumps({**outer, "sigs": [signature]})


@given(
    purposes=st.tuples(*[st.sampled_from(sorted(PAYLOAD_TYPES))] * 2),
    generations=st.tuples(GENERATIONS, GENERATIONS),
    payloads=st.tuples(st.binary(max_size=40), st.binary(max_size=40)),
    moved=st.sets(st.sampled_from(["payloadType", "payload", "kid", "mac"]), min_size=1),
)
def test_any_field_moved_between_two_valid_messages_is_refused(
    purposes: tuple[str, str],
    generations: tuple[int, int],
    payloads: tuple[bytes, bytes],
    moved: set[str],
) -> None:
    one, other = (
        _fields(json.loads(seal(payload, PAYLOAD_TYPES[purpose], [signer(key_id(gen, purpose))])))
        for purpose, gen, payload in zip(purposes, generations, payloads, strict=True)
    )
    mixed = one | {name: other[name] for name in moved}
    honest = [one, other]
    for kind in {PAYLOAD_TYPES[purpose] for purpose in purposes}:
        try:
            opened = open_envelope(_message(mixed), READER, kind)
        except EnvelopeRefused:
            continue
        assert mixed in honest, "only what was signed as a whole is read"
        assert base64.b64decode(mixed["payload"]) == opened.payload


@given(st.binary(max_size=200) | st.text(max_size=100))
def test_any_text_at_all_is_refused_with_the_one_error(data: bytes | str) -> None:
    with pytest.raises(EnvelopeRefused):
        open_envelope(data, READER, JOB_TYPE)


def test_signatures_of_two_messages_do_not_make_a_third() -> None:
    texts = [json.loads(sealed(generation, PAYLOAD + b" " * generation)) for generation in (1, 2)]
    both = texts[0] | {"sigs": [*texts[1]["sigs"], *texts[0]["sigs"]]}
    assert open_envelope(json.dumps(both), READER, JOB_TYPE).kid == key_id(1).text
    only = texts[0] | {"sigs": texts[1]["sigs"]}
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(json.dumps(only), READER, JOB_TYPE)
    assert caught.value.code == "bad_signature"
