"""Secrets in text that comes in pieces: what is shown never depends on where it was cut."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.run_agent import (
    CommandState,
    Risk,
    RunAgentResult,
    Status,
    Validation,
    ValidationCommand,
)
from validation.redaction import MARK, Redactor, redacted_result, secret_values

VALUE = "hunter2-hunter2"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow+/=\nAQAB\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
SHAPED = (
    "sk-ant-api03-" + "a" * 30,
    "sk-proj-" + "B_-9" * 10,
    "ghp_" + "c" * 36,
    "github_pat_" + "d" * 40,
    "glpat-" + "e" * 20,
    "AKIA" + "F" * 16,
    "AIza" + "g" * 35,
    "xoxb-" + "1" * 12,
    "xai-" + "h" * 40,
    "npm_" + "i" * 36,
    "pypi-" + "j" * 40,
    "hf_" + "k" * 34,
    JWT,
    KEY,
)
REDACTOR = Redactor([VALUE, "two words of\nseveral lines, each of them long"])

_PROSE = st.text(st.sampled_from('ab -_./:@\n\t"\\'), max_size=30)
_TEXTS = st.lists(st.one_of(_PROSE, st.sampled_from([VALUE, *SHAPED, "https://u:p4ss@host/x"])))


def in_pieces(text: str, cuts: list[int]) -> str:
    stream = REDACTOR.stream()
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    shown = [stream.feed(text[a:b]) for a, b in itertools.pairwise(edges)]
    return "".join(shown) + stream.finish()


@pytest.mark.parametrize("secret", [VALUE, *SHAPED])
def test_no_offset_of_a_cut_lets_a_secret_through(secret: str) -> None:
    text = f"before {secret} after\nnext"
    for offset in range(len(text) + 1):
        assert in_pieces(text, [offset]) == f"before {MARK} after\nnext"


@given(_TEXTS, st.lists(st.integers(0, 400), max_size=8))
def test_pieces_and_the_whole_are_redacted_alike(parts: list[str], cuts: list[int]) -> None:
    text = " ".join(parts)
    shown = in_pieces(text, cuts)
    assert shown == REDACTOR.redact(text)
    assert VALUE not in shown
    assert not any(secret in shown for secret in SHAPED)
    assert "u:p4ss" not in shown
    assert REDACTOR.redact(shown) == shown


@given(st.text(), st.lists(st.integers(0, 60)))
def test_text_without_a_secret_is_left_alone(text: str, cuts: list[int]) -> None:
    assert in_pieces(text, cuts) == text


@pytest.mark.parametrize("filler", ["x", "word "])
def test_a_line_without_an_end_is_held_within_a_bound_and_cut_alike(filler: str) -> None:
    text = filler * 9_000 + f"{VALUE} " + filler * 9_000
    expected = text.replace(VALUE, MARK)
    stream = REDACTOR.stream()
    shown = "".join(stream.feed(character) for character in text)
    assert len(shown) > len(expected) - 17_000
    assert shown + stream.finish() == expected == REDACTOR.redact(text)


def test_a_secret_that_stands_where_a_long_line_is_cut_is_still_seen() -> None:
    secret = SHAPED[0]
    for start in range(16_384 - len(secret) - 2, 16_386):
        text = "w " * (start // 2) + " " * (start % 2) + secret + " end"
        assert secret[:20] not in REDACTOR.redact(text)


def test_userinfo_of_an_address_goes_and_the_address_stays() -> None:
    shown = REDACTOR.redact("git clone https://ada:s3cret@example.org/x.git ssh://git@h/y a@b.c")
    assert shown == f"git clone https://{MARK}@example.org/x.git ssh://{MARK}@h/y a@b.c"
    assert REDACTOR.redact("https://example.org/@me/sk-not") == "https://example.org/@me/sk-not"


def test_a_key_without_an_end_takes_no_more_with_it_than_a_key_is_long() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + "QUJD\n" * 10_000 + "after\n"
    shown = REDACTOR.redact(text)
    assert shown.startswith(MARK)
    assert shown.endswith("after\n")
    assert len(text) - len(shown) <= 16_384 + len(text.split("\n", 1)[0])


def test_many_keys_in_one_line_are_all_taken_out() -> None:
    line = KEY.replace("\n", "\\n")
    assert REDACTOR.redact(f"{line} " * 200) == f"{MARK} " * 200


def test_a_value_is_seen_in_json_in_an_address_and_line_by_line() -> None:
    redactor = Redactor(['pass"word/1', "first line of the value\nsecond line of the value\n--\n"])
    assert redactor.redact(json.dumps({"a": 'pass"word/1'})) == json.dumps({"a": MARK})
    assert redactor.redact("x=pass%22word%2F1") == f"x={MARK}"
    assert redactor.redact("  second line of the value--\n") == f"  {MARK}--\n"


def test_a_short_value_blanks_nothing_and_a_redactor_shows_no_value() -> None:
    redactor = Redactor(["", "short", "redacted", VALUE])
    assert redactor.redact("a short one, redacted") == "a short one, redacted"
    assert repr(redactor) == "Redactor(1 values)"


def test_values_are_found_by_configured_names_and_by_names_that_say_it() -> None:
    environment = {
        "OPENAI_API_KEY": "1",
        "CLAUDE_CODE_OAUTH_TOKEN": "2",
        "NPM_TOKEN": "3",
        "AWS_SECRET_ACCESS_KEY": "4",
        "DB_PASSWORD": "5",
        "ANTHROPIC_CUSTOM_HEADERS": "6",
        "MY_OWN": "7",
        "PATH": "no",
        "TOKENROI_CONTEXT": "no",
        "KEYBOARD": "no",
    }
    assert set(secret_values(environment, ["MY_OWN"])) == set("1234567")


def test_the_words_of_a_result_are_blanked_and_its_paths_stay_exact() -> None:
    result = RunAgentResult(
        status=Status.COMPLETED,
        summary=f"said {VALUE}",
        changed_files=(f"{VALUE}.txt",),
        tests_attempted=(f"curl {VALUE} => exit 0",),
        known_risks=(f"risk {VALUE}\x1b[2J\u202e",),
        needs_human_review=True,
        agent="codex",
        durationSeconds=1.0,
        worktreePath="/t",
        sessionId=VALUE,
        risks=(Risk(code="x", message=f"risk {VALUE}"),),
        notes=(Risk(code="x", message=f"note {VALUE}"),),
        validation=Validation(
            commands=(ValidationCommand(command=f"curl {VALUE}", state=CommandState.PASSED),)
        ),
    )
    shown = redacted_result(result, REDACTOR)
    assert shown.changed_files == (f"{VALUE}.txt",)
    assert VALUE not in shown.model_copy(update={"changed_files": ()}).to_json()
    assert shown.to_json().count(MARK) == 7
    assert shown.known_risks == (f"risk {MARK}\ufffd",)
