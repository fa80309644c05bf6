"""A sender's path, and the folder of this host that it means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.repo_map import map_repo

PATHS = {
    "C:\\src": "/home/me/src",
    "C:\\src\\special": "/srv/special",
    "/Users/me": "/home/me",
    "/data": "D:\\data",
}


@pytest.mark.parametrize(
    ("repo", "mapped"),
    [
        ("C:\\src\\app", "/home/me/src/app"),
        ("c:/SRC/app/", "/home/me/src/app"),
        ("C:\\src", "/home/me/src"),
        ("C:\\src\\special\\app", "/srv/special/app"),
        ("C:\\srcs\\app", "C:\\srcs\\app"),
        ("/Users/me/app", "/home/me/app"),
        ("/Users/me//app/", "/home/me/app"),
        ("/users/me/app", "/users/me/app"),
        ("/Users/mean/app", "/Users/mean/app"),
        ("/data/x/y", "D:\\data\\x\\y"),
        ("Users/me/app", "Users/me/app"),
        ("", ""),
    ],
)
def test_the_longest_prefix_of_whole_components_is_replaced(repo: str, mapped: str) -> None:
    assert map_repo(repo, PATHS) == mapped


def test_a_root_stays_a_root() -> None:
    assert map_repo("/a", {"/a": "/"}) == "/"
    assert map_repo("/a/b", {"/": "/mnt"}) == "/mnt/a/b"


@given(st.text())
def test_nothing_is_changed_without_a_map(repo: str) -> None:
    assert map_repo(repo, {}) == repo
