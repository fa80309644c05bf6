"""Absolute paths by two grammars."""

from __future__ import annotations

import ntpath
import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validation.paths import Grammar, has_control, path_problem

POSIX = [
    "/srv/repo",
    "/",
    "/a b/é",
    "/srv/re..po",
    "/srv/..repo",
    "/srv/./repo",
    "//srv/repo",
    "/a\\..\\b",
]
WINDOWS = [
    "C:\\src\\myrepo",
    "c:/src/myrepo",
    "C:\\",
    "\\\\server\\share\\repo",
    "//server/share/repo",
    "D:\\a b\\é",
    "C:\\src\\..repo",
]
NEITHER = [
    "repo",
    "./repo",
    "~/repo",
    "C:repo",
    "C:",
    "\\repo",
    "\\\\server",
    "\\\\?\\C:\\repo",
    "\\\\.\\C:\\repo",
    "file:///srv/repo",
    "1:\\repo",
    " /srv/repo",
]
TRICKS = [
    "/srv/../etc",
    "/..",
    "/srv/repo/..",
    "C:\\src\\..\\x",
    "C:\\src/../x",
    "C:\\..",
    "C:\\src\\.. \\x",
    "C:\\src\\...\\x",
    "/srv/re\npo",
    "/srv/re\0po",
    "/srv/\x1b[31m",
    "/srv/re\u2028po",
    "/srv/\u202eoper",
    "C:\\src\\a:b",
    "C:\\src\\a|b",
    "C:\\src\\a*",
    "/" + "a" * 4_096,
]


@pytest.mark.parametrize("path", POSIX)
def test_an_absolute_posix_path_passes_on_a_posix_host(path: str) -> None:
    assert path_problem(path, "posix") is None
    assert path_problem(path, "any") is None


@pytest.mark.parametrize("path", WINDOWS)
def test_an_absolute_windows_path_passes_on_a_windows_host(path: str) -> None:
    assert path_problem(path, "windows") is None
    assert path_problem(path, "any") is None


@pytest.mark.parametrize("path", NEITHER)
@pytest.mark.parametrize("grammar", ["any", "posix", "windows"])
def test_what_is_absolute_by_no_grammar_is_refused(path: str, grammar: Grammar) -> None:
    assert "absolute" in str(path_problem(path, grammar))


@pytest.mark.parametrize("path", TRICKS)
def test_a_path_with_a_trick_in_it_is_refused(path: str) -> None:
    assert path_problem(path, "any")


def test_a_path_of_the_other_system_is_refused_by_the_hosts_own_grammar() -> None:
    assert path_problem("C:\\src", "posix") == "is not an absolute POSIX path"
    assert path_problem("/srv/repo", "windows") == "is not an absolute Windows path"


@given(st.text("/a.\\C: ", max_size=12))
def test_what_passes_is_absolute_and_never_climbs(path: str) -> None:
    if path_problem(path, "posix") is None:
        assert posixpath.isabs(path)
        assert ".." not in path.split("/")
    if path_problem(path, "windows") is None:
        assert ntpath.splitdrive(path)[0]
        assert ".." not in ntpath.normpath(path).split("\\")


def test_control_characters_are_seen_wherever_they_stand() -> None:
    assert not has_control("plain text, é, 漢字 👍🏽")
    assert all(has_control(f"a{c}b") for c in "\0\n\r\t\x1b\x7f\x85\u2028\u2029\u202e\u2066")
