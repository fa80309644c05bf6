"""Job ids and names: checked before any path, ref or key is made of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import InvalidRequest
from contracts.ids import checked_job_id, checked_name, is_job_id, is_name, new_job_id

BAD_IDS = [
    "",
    "a" * 15,
    "a" * 33,
    "A" * 20,
    "../../../../etc/pass",
    "0123456789abcdef\n",
    "0123456789abcde/",
    "0123456789abcdé0",
    "٠" * 20,
    None,
    12345678901234567890,
    b"a" * 20,
]
BAD_NAMES = [
    "",
    ".",
    "..",
    "-a",
    ".a",
    "_a",
    "a/b",
    "a:b",
    "a@b",
    "a b",
    "a\n",
    "a\0",
    "é",
    "a" * 65,
    None,
    1,
]


def test_a_new_job_id_is_valid_and_never_the_same() -> None:
    ids = {new_job_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(is_job_id(one) and len(one) == 20 for one in ids)


@pytest.mark.parametrize("text", ["a" * 16, "z9" * 16, "0123456789abcdef0123"])
def test_a_job_id_of_16_to_32_small_letters_and_digits_is_taken(text: str) -> None:
    assert is_job_id(text)
    assert checked_job_id(text) == text


@pytest.mark.parametrize("text", BAD_IDS)
def test_what_is_no_job_id_is_refused_without_being_repeated(text: object) -> None:
    assert not is_job_id(text)
    with pytest.raises(InvalidRequest) as caught:
        checked_job_id(text)
    assert caught.value.problems[0].field == "jobId"
    if isinstance(text, str) and text.strip():
        assert text not in str(caught.value)


@pytest.mark.parametrize("text", ["a", "GAMINGPC", "MULTI-MODEL", "host.example_1", "a" * 64])
def test_a_plain_name_is_taken_for_host_lane_and_sender(text: str) -> None:
    assert is_name(text)
    assert checked_name(text, "lane") == text


@pytest.mark.parametrize("text", BAD_NAMES)
def test_what_is_no_name_is_refused_naming_the_field(text: object) -> None:
    assert not is_name(text)
    with pytest.raises(InvalidRequest) as caught:
        checked_name(text, "lane")
    assert caught.value.problems[0].field == "lane"


@given(st.text())
def test_a_valid_name_is_safe_inside_keys_and_paths(text: str) -> None:
    if is_name(text):
        assert text.isascii()
        assert not set(text) & set("/\\:@*?[] \n\0")
        assert text not in (".", "..")
