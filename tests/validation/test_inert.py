from __future__ import annotations

import json
import time
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.inert import cut, first_line, inert, inert_json, last_lines, one_line


@given(text=st.text())
def test_nothing_that_moves_a_cursor_or_reorders_text_is_left(text: str) -> None:
    left = [c for c in inert(text) if unicodedata.category(c) in ("Cc", "Zl", "Zp")]
    assert set(left) <= {"\t", "\n"}
    assert not any(
        unicodedata.bidirectional(c) in ("RLO", "LRO", "RLE", "PDF") for c in inert(text)
    )


def test_terminal_sequences_vanish_whole() -> None:
    title, link = "\x1b]0;owned\x07", "\x1b]8;;http://x\x1b\\"
    assert inert(f"\x1b[31mred\x1b[0m{title}{link} text") == "red text"


def test_text_that_is_read_backwards_is_marked() -> None:
    assert inert("a\u202eb") == "a\ufffdb"


def test_ordinary_text_is_left_alone() -> None:
    text = "Zażółć\tgęślą 日本語 👍\njaźń"
    assert inert(text) == text


def test_one_line_is_one_line_of_the_length_asked_for() -> None:
    assert one_line("a\n b\r\n\tc", 10) == "a b c"
    assert one_line("x" * 30, 10) == "x" * 9 + "…"


def test_a_long_text_keeps_its_end() -> None:
    assert cut("0123456789", 5) == "…6789"
    assert cut("0123", 5) == "0123"


def test_first_and_last_lines_skip_empty_ones() -> None:
    assert first_line(b"\n  \n one \ntwo\n") == "one"
    assert first_line(b"") == ""
    assert last_lines("a\n\nb\n\x07c\n\n", 2) == "b\n\ufffdc"


@pytest.mark.parametrize("opening", ["\x9d", "\x9d]", "\x1b]", "\x1b", "\x1b["])
def test_openings_without_an_end_are_read_in_linear_time(opening: str) -> None:
    began = time.monotonic()
    inert(opening * 200_000)
    assert time.monotonic() - began < 5


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
_ACTING = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(st.characters(exclude_categories=())))
def test_a_line_holds_nothing_that_acts(text: str) -> None:
    for line in (one_line(text, 500), one_line(text, 500, keep_spaces=True)):
        assert not {unicodedata.category(c) for c in line} & _ACTING
        line.encode("utf-8")


@given(_JSON)
def test_inert_json_means_the_same(value: Any) -> None:
    document = inert_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(document) == value
    assert not {unicodedata.category(c) for c in document if c != "\n"} & _ACTING


def test_characters_beyond_the_first_plane_are_escaped_as_pairs() -> None:
    assert inert_json('"\U000e0001"') == '"\\udb40\\udc01"'


def test_a_sequence_that_opens_with_one_character_vanishes_too() -> None:
    assert inert("\x9b31mred\x9b0m \x1b[?1049hscreen \x1b[>4;2mkeys") == "red screen keys"


def test_a_path_keeps_its_spaces() -> None:
    assert one_line("/a  b\tc\nd", 50, keep_spaces=True) == "/a  b c d"
    assert one_line("/a  b", 4, keep_spaces=True) == "/a …"
