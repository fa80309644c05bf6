from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runagent.text import cut, first_line, inert, last_lines, one_line


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
    assert last_lines(b"a\n\nb\n\xffc\n\n", 2) == "b\n\ufffdc"


@pytest.mark.parametrize("opening", ["\x9d", "\x9d]", "\x1b]", "\x1b", "\x1b["])
def test_openings_without_an_end_are_read_in_linear_time(opening: str) -> None:
    began = time.monotonic()
    inert(opening * 200_000)
    assert time.monotonic() - began < 5
