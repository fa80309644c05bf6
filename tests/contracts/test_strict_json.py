"""JSON that has one reading only."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts import limits
from contracts.errors import InvalidRequest
from contracts.strict_json import JsonValue, dump_strict, parse_strict, parse_strict_object

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_INTEGERS = st.integers(-limits.JSON_INT_MAX, limits.JSON_INT_MAX)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | _INTEGERS | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=12,
)

REFUSED = {
    "nothing": (b"", "is not JSON"),
    "a word": (b"hello", "is not JSON"),
    "two documents": (b"{}{}", "is not JSON"),
    "a trailing comma": (b"[1,]", "is not JSON"),
    "a raw control character": (b'"a\nb"', "is not JSON"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "byte order mark"),
    "UTF-16": ("{}".encode("utf-16"), "not UTF-8"),
    "a byte that is not UTF-8": (b'"\xff"', "not UTF-8"),
    "an overlong encoding": (b'"\xc0\xaf"', "not UTF-8"),
    "a raw surrogate": (b'"\xed\xa0\x80"', "not UTF-8"),
    "an escaped lone surrogate": (b'"\\ud800"', "lone surrogate"),
    "a lone surrogate in a key": (b'{"\\udfff":1}', "lone surrogate"),
    "a lone surrogate deep inside": (b'[[{"a":["\\ud800x"]}]]', "lone surrogate"),
    "a repeated key": (b'{"a":1,"a":1}', "a key twice"),
    "a repeated key, once escaped": (b'{"a":1,"\\u0061":2}', "a key twice"),
    "a repeated key deep inside": (b'[{"b":{"a":1,"a":2}}]', "a key twice"),
    "a fraction": (b"1.5", "not an integer"),
    "an integral fraction": (b"1.0", "not an integer"),
    "an exponent": (b"1e3", "not an integer"),
    "NaN": (b"NaN", "NaN"),
    "Infinity": (b"[Infinity]", "NaN or Infinity"),
    "minus Infinity": (b"-Infinity", "NaN or Infinity"),
    "2^53": (str(2**53).encode(), "2^53-1"),
    "minus 2^53": (str(-(2**53)).encode(), "2^53-1"),
    "an endless integer": (b"9" * 100_000, "2^53-1"),
    "a leading zero": (b"01", "is not JSON"),
    "17 levels": (b"[" * 17 + b"]" * 17, "nests deeper than 16"),
    "17 levels of both kinds": (b'{"a":[' * 9 + b"]}" * 9, "nests deeper than 16"),
    "a million levels": (b"[" * 1_000_000, "nests deeper than 16"),
    "a million parts": (b"[" + b"[]," * 300_000 + b"[]]", "more than 100000 parts"),
}


@pytest.mark.parametrize(("data", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_could_be_read_in_two_ways_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_strict(data, field="job")
    assert why in str(caught.value)
    assert caught.value.problems[0].field == "job"
    assert caught.value.problems[0].remedy


def test_a_message_about_bad_json_never_repeats_it() -> None:
    for data in (b'{"password":"hunter2",}', b'{"a":1,"a":"hunter2"}', b'"hunter2\xff"'):
        with pytest.raises(InvalidRequest) as caught:
            parse_strict(data)
        assert "hunter2" not in str(caught.value)


def test_more_bytes_than_allowed_are_refused_unread() -> None:
    assert parse_strict(b'"12345678"', max_bytes=10) == "12345678"
    with pytest.raises(InvalidRequest, match=r"11 bytes .*at most 10"):
        parse_strict(b'"123456789"', max_bytes=10)


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b" 0\n", 0),
        (b"-9007199254740991", -limits.JSON_INT_MAX),
        (b"9007199254740991", limits.JSON_INT_MAX),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"[[[[[[[[[[[[[[[[[[[["', "[" * 20),
        (b'"\\"[[[[[[[[[[[[[[[[[[[["', '"' + "[" * 20),
        (b"[" * 16 + b"]" * 16, json.loads("[" * 16 + "]" * 16)),
        (b'["[]","\\\\",[]]', ["[]", "\\", []]),
        ('"é\u2028"'.encode(), "é\u2028"),
    ],
)
def test_what_has_one_reading_is_read(data: bytes, value: JsonValue) -> None:
    assert parse_strict(data) == value


@pytest.mark.parametrize("data", [b"[]", b'"a"', b"1", b"null"])
def test_an_object_is_asked_for_and_nothing_else_will_do(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not a JSON object"):
        parse_strict_object(data)
    assert parse_strict_object(b'{"a":null}') == {"a": None}


@pytest.mark.parametrize(
    "value", [1.5, float("nan"), {1, 2}, "\ud800", 2**53, {"a": {"b": [2**60]}}, b"bytes"]
)
def test_what_strict_json_refuses_is_not_written_either(value: JsonValue) -> None:
    with pytest.raises(InvalidRequest) as caught:
        dump_strict(value, field="claims")
    assert caught.value.problems[0].field == "claims"


def test_a_value_that_holds_itself_is_refused() -> None:
    endless: list[JsonValue] = []
    endless.append(endless)
    with pytest.raises(InvalidRequest):
        dump_strict(endless)


@pytest.mark.parametrize(
    "data", [b'"' + b'\\"' * 1_000_000, b'"' * 2_000_000, b"\\" * 2_000_000, b'"a' * 1_000_000]
)
def test_hostile_text_is_read_in_linear_time(data: bytes) -> None:
    started = time.monotonic()
    with pytest.raises(InvalidRequest):
        parse_strict(data)
    assert time.monotonic() - started < 20  # quadratic reading would take hours


@given(VALUES)
def test_what_is_written_is_read_back_the_same(value: JsonValue) -> None:
    data = dump_strict(value)
    assert parse_strict(data) == value
    assert dump_strict(parse_strict(data)) == data


@given(st.binary(max_size=200) | st.text('[]{}",:\\ue019.-tfn ', max_size=60).map(str.encode))
def test_any_bytes_are_read_as_a_lenient_parser_would_or_refused(data: bytes) -> None:
    try:
        value = parse_strict(data)
    except InvalidRequest:
        return
    assert json.loads(data.decode()) == value


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.text() | st.floats(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=3)
        ),
        max_leaves=12,
    ),
    st.integers(0, 18),
)
def test_what_is_written_without_a_second_reading_would_have_passed_it(
    value: JsonValue, levels: int
) -> None:
    for _ in range(levels):
        value = [value]
    try:
        data = dump_strict(value)
    except InvalidRequest:
        return
    parse_strict(data)


@pytest.mark.parametrize("levels", [15, 16, 17])
def test_what_is_written_nests_no_deeper_than_what_is_read(levels: int) -> None:
    value: JsonValue = json.loads("[" * levels + "]" * levels)
    if levels <= 16:
        assert parse_strict(dump_strict(value)) == value
    else:
        with pytest.raises(InvalidRequest, match="nests deeper than 16"):
            dump_strict(value)


def test_many_shallow_parts_are_read_and_too_many_are_neither_read_nor_written() -> None:
    many: JsonValue = [[] for _ in range(20_000)]
    assert parse_strict(dump_strict(many)) == many
    numbers: JsonValue = list(range(40_000))
    assert parse_strict(dump_strict(numbers)) == numbers
    with pytest.raises(InvalidRequest, match="more than 100000 parts"):
        dump_strict(list(range(100_002)))
