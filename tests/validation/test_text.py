"""Foreign text made fit for a result."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.text import shortened, shown_name, whole

_ANY = st.text(st.characters(exclude_categories=()), max_size=60)


@given(_ANY)
def test_text_is_made_whole_so_that_it_can_be_written(text: str) -> None:
    assert whole(text).encode("utf-8")[:0] == b""
    assert whole(whole(text)) == whole(text)


@given(_ANY, st.integers(1, 80))
def test_a_shortened_text_has_its_length_and_stays_when_shortened_again(
    text: str, limit: int
) -> None:
    short = shortened(text, limit)
    assert len(short) <= limit
    assert shortened(short, limit) == short


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    short = shortened("a" * 500 + "b" * 500, 100)
    assert len(short) == 100
    assert short.startswith("aaaa")
    assert short.endswith("bbbb")
    assert "900 characters" in short


@pytest.mark.parametrize("name", ["App.sln", "src/App.csproj", "a-b_c@1"])
def test_a_plain_name_is_shown_as_it_is(name: str) -> None:
    assert shown_name(name) == name


def test_a_name_with_spaces_is_quoted_and_a_hostile_one_escaped() -> None:
    assert shlex.split(shown_name("My App.sln")) == ["My App.sln"]
    assert shown_name("a\nb") == "'a\\nb'"
    assert shown_name("a\udcff") == "'a\\udcff'"
