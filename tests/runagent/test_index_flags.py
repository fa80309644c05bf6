"""The bits of an index that hide a file from git's status, read from real and broken indexes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runagent.evidence import index_flags
from runagent.evidence.index_flags import read_hidden
from tests.support.repositories import git, make_repository

NAMES = {f"{'d/' * (n % 3)}{'n' * n}{n}": f"{n}\n" for n in range(1, 200, 7)}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo", NAMES)


def hidden(repo: Path) -> frozenset[bytes]:
    return read_hidden(str(repo / ".git" / "index"), id_bytes=20)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_both_flags_are_read_in_every_version_of_the_format(repo: Path, version: str) -> None:
    git(repo, "update-index", "--index-version", version)
    assert hidden(repo) == frozenset()
    one, two, *_ = sorted(NAMES, key=len)
    git(repo, "update-index", "--assume-unchanged", one)
    git(repo, "update-index", "--skip-worktree", two)
    assert hidden(repo) == {one.encode(), two.encode()}
    git(repo, "update-index", "--no-assume-unchanged", one)
    assert hidden(repo) == {two.encode()}


def test_an_index_with_longer_ids_is_read(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "-q", "--object-format=sha256")
    (tmp_path / "repo" / "file").write_text("x")
    git(tmp_path / "repo", "add", "file")
    git(tmp_path / "repo", "update-index", "--assume-unchanged", "file")
    index = str(tmp_path / "repo" / ".git" / "index")
    assert read_hidden(index, id_bytes=32) == {b"file"}


def test_names_that_grow_without_end_are_read_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_flags, "_NAMES_MAX_BYTES", 10_000)
    flagged = b"\0" * 60 + b"\x80\0"
    entries = [flagged + b"\0" + b"n" * 1_000 + b"\0", *([flagged + b"\0x\0"] * 1_000)]
    (tmp_path / "index").write_bytes(b"DIRC\0\0\0\4\0\0\3\xe9" + b"".join(entries))
    found = read_hidden(str(tmp_path / "index"), id_bytes=20)
    assert 0 < sum(map(len, found)) <= 10_000


def test_no_index_a_pipe_or_a_link_hides_nothing(tmp_path: Path, repo: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(repo / ".git" / "index")
    for name in ("gone", "pipe", "link"):
        assert read_hidden(str(tmp_path / name), id_bytes=20) == frozenset()
    assert read_hidden("a\0b", id_bytes=20) == frozenset()


@settings(max_examples=200)
@given(st.binary(max_size=300), st.integers(0, 5))
def test_any_bytes_are_read_to_an_end(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, version: int
) -> None:
    index = tmp_path_factory.getbasetemp() / "index"
    index.write_bytes(b"DIRC" + version.to_bytes(4, "big") + b"\xff\xff\xff\xff" + tail)
    assert isinstance(read_hidden(str(index), id_bytes=20), frozenset)
    index.write_bytes(tail)
    assert isinstance(read_hidden(str(index), id_bytes=20), frozenset)


def entry(name: bytes, *flags: int) -> bytes:
    """Return one entry of a version 2 or 3 index, padded as git pads it."""
    body = b"\1" * 60 + bytes(flags) + name
    return body + b"\0" * (8 - len(body) % 8)


def by_the_long_way(index: bytes) -> frozenset[bytes]:
    found = set()
    try:
        for path, is_hidden in index_flags._entries(index, 20):
            if is_hidden:
                found.add(path)
    except (ValueError, IndexError, index_flags.struct.error):
        pass
    return frozenset(found)


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.binary(max_size=20),
            st.sampled_from([(0, 5), (0x0F, 0xFF), (0x30, 1), (0x80, 3), (0x40, 1, 0x40, 0)]),
        ),
        max_size=6,
    ),
    st.sampled_from([2, 3]),
    st.integers(0, 3),
)
def test_the_short_way_never_overlooks_what_the_long_way_sees(
    entries: list[tuple[bytes, tuple[int, ...]]], version: int, missing: int
) -> None:
    """Names with a NUL inside are an agent's, as is a count that does not hold."""
    body = b"".join(entry(name, *flags) for name, flags in entries)
    count = (len(entries) + missing).to_bytes(4, "big")
    index = b"DIRC" + version.to_bytes(4, "big") + count + body
    if index_flags._hides_nothing(index, 20):
        assert by_the_long_way(index) == frozenset()


def test_an_index_without_flags_takes_the_short_way(repo: Path) -> None:
    assert index_flags._hides_nothing((repo / ".git" / "index").read_bytes(), 20)
    git(repo, "update-index", "--assume-unchanged", min(NAMES, key=len))
    assert not index_flags._hides_nothing((repo / ".git" / "index").read_bytes(), 20)
