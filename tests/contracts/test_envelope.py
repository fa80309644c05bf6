"""The signed envelope: exact bytes in, exact bytes out, one outward answer to all that is wrong."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import limits
from contracts.envelope import (
    CANCEL_TYPE,
    JOB_TYPE,
    RESULT_TYPE,
    open_envelope,
    pre_authentication_encoding,
    seal,
)
from contracts.errors import EnvelopeRefused, InvalidRequest
from tests.support.hmac_keys import HmacKey, Keys

KEY = HmacKey("alice/1/job/host:A", b"k" * 32)
NEXT_KEY = HmacKey("alice/2/job/host:A", b"n" * 32)
RESULT_KEY = HmacKey("alice/1/result/host:A", b"r" * 32, RESULT_TYPE)
FOREIGN = HmacKey("mallory/1/job/host:A", b"m" * 32)
KEYS = Keys(KEY, NEXT_KEY, RESULT_KEY)
PAYLOAD = b'{"task":"x"}'

Change = Callable[[dict[str, Any]], object]


def _sealed(payload: bytes = PAYLOAD, *keys: HmacKey) -> dict[str, Any]:
    outer = json.loads(seal(payload, JOB_TYPE, keys or (KEY,)))
    assert isinstance(outer, dict)
    return outer


def _loose(text: str) -> str:
    """Return base64 with a stray bit behind the last byte: the same bytes, another text."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = text.rstrip("=")
    assert body != text
    return body[:-1] + alphabet[alphabet.index(body[-1]) + 1] + "=" * (len(text) - len(body))


def _set(path: str, value: object) -> Change:
    def change(outer: dict[str, Any]) -> None:
        target: Any = outer
        *parents, last = path.split(".")
        for part in parents:
            target = target[int(part) if part.isdigit() else part]
        target[int(last) if last.isdigit() else last] = value

    return change


def _sign_as(key: HmacKey, payload_type: str = JOB_TYPE, kid: str = "") -> Change:
    def change(outer: dict[str, Any]) -> None:
        message = pre_authentication_encoding(payload_type, PAYLOAD)
        mac = base64.b64encode(key.sign(message)).decode()
        outer["sigs"] = [{"kid": kid or key.kid, "mac": mac}]

    return change


TABLE: dict[str, tuple[Change, str]] = {
    "another payload": (
        _set("payload", base64.b64encode(b'{"task":"y"}').decode()),
        "bad_signature",
    ),
    "an empty payload": (_set("payload", ""), "bad_signature"),
    "another mac": (_set("sigs.0.mac", base64.b64encode(b"0" * 32).decode()), "bad_signature"),
    "an empty mac": (_set("sigs.0.mac", ""), "bad_signature"),
    "half a mac": (lambda o: _set("sigs.0.mac", o["sigs"][0]["mac"][:20])(o), "bad_signature"),
    "another known kid": (_set("sigs.0.kid", NEXT_KEY.kid), "bad_signature"),
    "an unknown kid": (_set("sigs.0.kid", "alice/9/job/host:A"), "unknown_key"),
    "signed by a stranger": (_sign_as(FOREIGN), "unknown_key"),
    "a stranger under our kid": (_sign_as(FOREIGN, kid=KEY.kid), "bad_signature"),
    "the key of another purpose": (_sign_as(RESULT_KEY), "unknown_key"),
    "signed as another type": (_sign_as(KEY, CANCEL_TYPE), "bad_signature"),
    "another type": (_set("payloadType", RESULT_TYPE), "wrong_type"),
    "a type in other letters": (_set("payloadType", JOB_TYPE.upper()), "wrong_type"),
    "a type that is no text": (_set("payloadType", 1), "wrong_type"),
    "no type": (lambda o: o.pop("payloadType"), "malformed"),
    "no payload": (lambda o: o.pop("payload"), "malformed"),
    "no signatures": (lambda o: o.pop("sigs"), "malformed"),
    "no version": (lambda o: o.pop("v"), "malformed"),
    "an unknown field": (_set("alg", "none"), "malformed"),
    "version 2": (_set("v", 2), "malformed"),
    "version true": (_set("v", True), "malformed"),
    "version 1.0": (_set("v", 1.0), "malformed"),
    "version as text": (_set("v", "1"), "malformed"),
    "a payload that is an object": (_set("payload", {"task": "x"}), "malformed"),
    "a null payload": (_set("payload", None), "malformed"),
    "a payload outside base64": (_set("payload", "%%%%"), "malformed"),
    "a payload of URL-safe base64": (_set("payload", "_-_-"), "malformed"),
    "a payload beyond ASCII": (_set("payload", "é" * 4), "malformed"),
    "base64 with a line break": (lambda o: _set("payload", o["payload"] + "\n")(o), "malformed"),
    "base64 with a stray bit": (
        lambda o: _set("sigs.0.mac", _loose(o["sigs"][0]["mac"]))(o),
        "malformed",
    ),
    "base64 without padding": (
        lambda o: _set("sigs.0.mac", o["sigs"][0]["mac"].rstrip("="))(o),
        "malformed",
    ),
    "an empty list of signatures": (_set("sigs", []), "malformed"),
    "signatures that are no list": (_set("sigs", {"kid": KEY.kid}), "malformed"),
    "five signatures": (_set("sigs", [{"kid": f"k{i}", "mac": ""} for i in range(5)]), "malformed"),
    "one key signing twice": (lambda o: _set("sigs", o["sigs"] * 2)(o), "malformed"),
    "a signature that is text": (_set("sigs.0", "x"), "malformed"),
    "a signature without kid": (lambda o: o["sigs"][0].pop("kid"), "malformed"),
    "a signature with an algorithm": (_set("sigs.0.alg", "HS256"), "malformed"),
    "a kid that is a number": (_set("sigs.0.kid", 1), "malformed"),
    "an empty kid": (_set("sigs.0.kid", ""), "malformed"),
    "an endless kid": (_set("sigs.0.kid", "k" * 301), "malformed"),
    "a mac that is null": (_set("sigs.0.mac", None), "malformed"),
}


@pytest.mark.parametrize(("change", "code"), TABLE.values(), ids=TABLE.keys())
def test_an_envelope_with_one_thing_wrong_is_refused(change: Change, code: str) -> None:
    outer = _sealed()
    assert open_envelope(json.dumps(outer), KEYS, JOB_TYPE).payload == PAYLOAD
    change(outer)
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(json.dumps(outer), KEYS, JOB_TYPE)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b'"x"', b"\xff\xfe", b"{", "\ud800", b"[" * 100_000, b"{}"],
)
def test_what_is_no_envelope_at_all_is_refused(data: bytes | str) -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(data, KEYS, JOB_TYPE)
    assert caught.value.code == "malformed"


def test_a_repeated_key_is_refused_even_when_the_second_is_the_honest_one() -> None:
    text = seal(PAYLOAD, JOB_TYPE, [KEY])
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(text[:-1] + ',"v":1}', KEYS, JOB_TYPE)
    assert caught.value.code == "malformed"


def test_an_envelope_beyond_the_limit_is_refused_unread() -> None:
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(b" " * (limits.ENVELOPE_MAX_BYTES + 1), KEYS, JOB_TYPE)
    assert caught.value.code == "too_large"


def test_a_payload_beyond_the_limit_is_refused_on_both_sides() -> None:
    large = b"x" * (limits.PAYLOAD_MAX_BYTES + 1)
    with pytest.raises(InvalidRequest, match=f"{len(large)} bytes .*{limits.PAYLOAD_MAX_BYTES}"):
        seal(large, JOB_TYPE, [KEY])
    mac = base64.b64encode(KEY.sign(pre_authentication_encoding(JOB_TYPE, large))).decode()
    body = base64.b64encode(large).decode()
    outer = {
        "v": 1,
        "payloadType": JOB_TYPE,
        "payload": body,
        "sigs": [{"kid": KEY.kid, "mac": mac}],
    }
    text = json.dumps(outer)
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(text, KEYS, JOB_TYPE)
    assert caught.value.code == "too_large"


def test_the_largest_payload_passes_whole() -> None:
    large = b"\xff" * limits.PAYLOAD_MAX_BYTES
    text = seal(large, JOB_TYPE, [KEY, NEXT_KEY])
    assert open_envelope(text, KEYS, JOB_TYPE).payload == large


def test_one_good_signature_of_two_is_enough() -> None:
    for keys in ((FOREIGN, KEY), (KEY, FOREIGN)):
        outer = _sealed(PAYLOAD, *keys)
        opened = open_envelope(json.dumps(outer), KEYS, JOB_TYPE)
        assert (opened.kid, opened.payload_type) == (KEY.kid, JOB_TYPE)


def test_a_bad_signature_beside_a_good_one_does_not_spoil_it() -> None:
    outer = _sealed(PAYLOAD, NEXT_KEY, KEY)
    outer["sigs"][0]["mac"] = base64.b64encode(b"0" * 32).decode()
    assert open_envelope(json.dumps(outer), KEYS, JOB_TYPE).kid == KEY.kid


def test_a_key_signs_its_own_type_and_no_other() -> None:
    text = seal(PAYLOAD, RESULT_TYPE, [RESULT_KEY])
    assert open_envelope(text, KEYS, RESULT_TYPE).kid == RESULT_KEY.kid
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(text, KEYS, JOB_TYPE)
    assert caught.value.code == "wrong_type"


@pytest.mark.parametrize("signers", [[], [HmacKey(f"k{i}", b"k") for i in range(5)]])
def test_an_envelope_is_signed_one_to_four_times(signers: list[HmacKey]) -> None:
    with pytest.raises(ValueError, match="1 to 4"):
        seal(PAYLOAD, JOB_TYPE, signers)


def test_what_is_signed_names_type_and_lengths_so_that_no_two_messages_are_one() -> None:
    assert pre_authentication_encoding("t", b"ab") == b"FDv1 1 t 2 ab"
    assert pre_authentication_encoding("té", b"") == b"FDv1 3 t\xc3\xa9 0 "


def test_a_refusal_never_repeats_the_payload() -> None:
    outer = _sealed(b"hunter2")
    outer["sigs"][0]["mac"] = ""
    with pytest.raises(EnvelopeRefused) as caught:
        open_envelope(json.dumps(outer), KEYS, JOB_TYPE)
    assert "hunter2" not in str(caught.value)
    assert outer["payload"] not in str(caught.value)


@given(payload=st.binary(max_size=300))
def test_the_bytes_that_come_out_are_the_bytes_that_went_in(payload: bytes) -> None:
    text = seal(payload, JOB_TYPE, [KEY])
    assert open_envelope(text, KEYS, JOB_TYPE).payload == payload
    assert open_envelope(text.encode(), KEYS, JOB_TYPE).payload == payload


@given(payload=st.binary(max_size=40), data=st.data())
def test_a_changed_byte_never_changes_what_is_verified(payload: bytes, data: st.DataObject) -> None:
    text = bytearray(seal(payload, JOB_TYPE, [KEY]).encode())
    position = data.draw(st.integers(0, len(text) - 1))
    action = data.draw(st.sampled_from(["replace", "remove", "insert"]))
    if action == "remove":
        del text[position]
    else:
        byte = data.draw(st.integers(0, 255))
        text[position : position + (action == "replace")] = bytes([byte])
    try:
        opened = open_envelope(bytes(text), KEYS, JOB_TYPE)
    except EnvelopeRefused:
        return
    assert (opened.payload, opened.kid) == (payload, KEY.kid)


@given(st.binary(max_size=200) | st.text(max_size=100))
def test_any_text_at_all_is_refused_with_the_one_error(data: bytes | str) -> None:
    with pytest.raises(EnvelopeRefused):
        open_envelope(data, KEYS, JOB_TYPE)
