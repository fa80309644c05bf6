from __future__ import annotations

import json
import unicodedata
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dispatch.plain_text import inert_json, plain

_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_control_and_direction_characters_are_replaced() -> None:
    assert plain("a\x1b[31m\nb\u202ec\u2028") == "a?[31m?b?c?"


def test_long_text_is_cut_where_it_was_said() -> None:
    assert plain("x" * 20, max_chars=10) == "x" * 9 + "…"
    assert plain("x" * 10, max_chars=10) == "x" * 10


@given(st.text())
def test_plain_text_holds_nothing_that_acts(text: str) -> None:
    assert not {unicodedata.category(c) for c in plain(text)} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(_JSON)
def test_inert_json_means_the_same(value: Any) -> None:
    document = inert_json(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(document) == value
    assert not {unicodedata.category(c) for c in document if c != "\n"} & {"Cc", "Cf", "Zl", "Zp"}


def test_characters_beyond_the_first_plane_are_escaped_as_pairs() -> None:
    assert inert_json('"\U000e0001"') == '"\\udb40\\udc01"'
