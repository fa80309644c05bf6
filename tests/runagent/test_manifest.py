"""The walk over a tree that an agent made: everything is seen, nothing is followed or opened, and
what is left out is told."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from runagent.deadline import Deadline
from runagent.evidence.traps import find_traps, traps_in
from runagent.files.manifest import (
    Manifest,
    ManifestBounds,
    has_other_names,
    is_file,
    is_folder,
    is_special,
    kind_of,
    leads_outside,
    size_of,
)
from runagent.files.manifest_walk import take_manifest
from tests.support.unprivileged import give_away, open_folder, run_unprivileged

BOTH_WAYS = pytest.mark.parametrize("by_descriptor", [True, False])


def look(tree: Path, **options: object) -> Manifest:
    return take_manifest(str(tree), Deadline(60.0), **options)  # type: ignore[arg-type]


def names(manifest: Manifest) -> set[bytes]:
    return {path for path, _ in manifest.paths()}


@BOTH_WAYS
def test_every_name_is_seen_and_no_link_is_followed(tmp_path: Path, by_descriptor: bool) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")
    (tree / "a" / "b").mkdir(parents=True)
    (tree / "a" / "b" / "file").write_text("text")
    (tree / "door").symlink_to(outside)
    (tree / "ring").symlink_to(".")
    (tree / ".git").write_text("gitdir: elsewhere\n")
    (tree / "a" / ".git").mkdir()
    (tree / "a" / ".git" / "config").write_text("x")
    manifest = look(tree, by_descriptor=by_descriptor)
    assert names(manifest) == {b"a", b"a/b", b"a/b/file", b"a/.git", b"door", b"ring"}
    item = manifest.item(b"a/b/file")
    assert item is not None and is_file(item) and size_of(item) == 4
    assert is_folder(manifest.item(b"a") or b"")
    assert kind_of(manifest.item(b"door") or b"") == stat.S_IFLNK
    assert manifest.item(b"nothing") is None
    assert manifest.problems == () and manifest.is_whole


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_of_any_bytes_are_kept_as_they_are(tmp_path: Path) -> None:
    odd = {b"a\nb", b"\xff\xfe", b" ", b"-rf", b'"', "ü".encode()}
    for name in odd:
        (tmp_path / os.fsdecode(name)).touch()
    assert names(look(tmp_path)) == odd


@BOTH_WAYS
def test_pipes_sockets_and_far_times_hold_nobody(
    tmp_path: Path, by_descriptor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        (tmp_path / "far").touch()
        os.utime(tmp_path / "far", (2**40, 2**40))
        (tmp_path / "past").touch()
        os.utime(tmp_path / "past", (-(2**35), -(2**35)))
        manifest = look(tmp_path, by_descriptor=by_descriptor)
    special = {path for path, item in manifest.paths() if is_special(item)}
    assert special == {b"pipe", b"socket"}
    assert names(manifest) == {b"pipe", b"socket", b"far", b"past"}


def test_a_tree_that_is_gone_or_is_a_link_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    for name in ("gone", "link"):
        for by_descriptor in (True, False):
            manifest = look(tmp_path / name, by_descriptor=by_descriptor)
            assert names(manifest) == set()
            assert [risk.code for risk in manifest.problems] == ["evidence_incomplete"]
            assert manifest.unreadable == {b""}


def test_more_files_than_the_bound_are_told_and_not_kept(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / str(number)).touch()
    manifest = look(tmp_path, bounds=ManifestBounds(files_max=10))
    assert len(names(manifest)) == 10
    assert not manifest.is_whole
    assert "more than 10" in manifest.problems[0].message
    assert look(tmp_path, bounds=ManifestBounds(files_max=30)).is_whole


def test_a_walk_that_takes_too_long_ends_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    manifest = take_manifest(str(tmp_path), Deadline(0.0))
    assert not manifest.is_whole
    assert "longer than 0 s" in manifest.problems[0].message


@contextlib.contextmanager
def deep_folders(root: Path, depth: int) -> Iterator[None]:
    """Make a path that no system call takes whole, and take it away again: whoever clears old
    temporary folders by recursion would fail at it."""
    places = [os.open(root, os.O_RDONLY)]
    for _ in range(depth):
        os.mkdir("d" * 50, dir_fd=places[-1])
        places.append(os.open("d" * 50, os.O_RDONLY, dir_fd=places[-1]))
    try:
        yield
    finally:
        os.close(places.pop())
        for place in reversed(places):
            os.rmdir("d" * 50, dir_fd=place)
            os.close(place)


def test_folders_deeper_than_the_bound_are_told_and_leave_no_open_file(tmp_path: Path) -> None:
    with deep_folders(tmp_path, 300):
        before = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
        manifest = look(tmp_path)
        assert not manifest.is_whole
        assert "deeper than 200" in manifest.problems[0].message
        if sys.platform == "linux":
            assert len(os.listdir("/proc/self/fd")) == before
    assert not list(tmp_path.iterdir())


CLOSED = """
import sys
from runagent.deadline import Deadline
from runagent.files.manifest_walk import take_manifest
manifest = take_manifest(sys.argv[1], Deadline(60.0))
print(sorted(path for path, _ in manifest.paths()), sorted(manifest.unreadable))
print([risk.message for risk in manifest.problems])
"""


def test_folders_that_cannot_be_read_are_named_and_the_rest_is_seen() -> None:
    with open_folder() as folder:
        for number in range(7):
            (folder / "tree" / f"closed{number}").mkdir(parents=True)
        (folder / "tree" / "file").touch()
        give_away(folder)
        for number in range(7):
            (folder / "tree" / f"closed{number}").chmod(0)
        said = run_unprivileged(CLOSED, str(folder / "tree"), home=folder)
    assert "b'file'" in said.splitlines()[0]
    assert "b'closed6'" in said.splitlines()[0].partition("[b'closed0', b'closed1'")[2]
    assert "closed0 (Permission denied)" in said
    assert "and 2 more" in said


def test_folders_without_news_are_the_same_objects_as_before(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").touch()
    before = look(tmp_path)
    (tmp_path / "two" / "new").touch()
    now = look(tmp_path, before=before)
    assert now.folders[b"one"] is before.folders[b"one"]
    assert now.folders[b"two"] is not before.folders[b"two"]


@pytest.mark.slow
def test_three_looks_at_many_files_take_little_more_than_one(tmp_path: Path) -> None:
    for number in range(20_000):
        folder = tmp_path / str(number // 500)
        folder.mkdir(exist_ok=True)
        (folder / f"a-name-of-some-length-{number}").touch()
    tracemalloc.start()
    one = look(tmp_path)
    first, _ = tracemalloc.get_traced_memory()
    two = look(tmp_path, before=one)
    three = look(tmp_path, before=two)
    third, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert first < 20_000 * 400, "a hundred thousand files take less than 40 MB"
    assert third - first < first / 4
    assert peak < 2 * first
    assert len(names(three)) == 20_040


def test_a_younger_file_than_the_rest_is_not_taken_for_proven(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    manifest = look(tmp_path)
    assert (tmp_path / "file").stat().st_ctime_ns > manifest.proven_ns


def test_traps_are_the_same_out_of_a_walk_as_by_looking(tmp_path: Path) -> None:
    for name in ("pipe", "giant", "plain", "folder", "link"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / ".gitattributes")
    with (tmp_path / "giant" / ".gitignore").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    (tmp_path / "plain" / ".gitignore").touch()
    (tmp_path / "folder" / ".gitignore").mkdir()
    (tmp_path / "link" / ".gitignore").symlink_to("nowhere")
    found = traps_in(look(tmp_path))
    assert found == [b"giant/.gitignore", b"pipe/.gitattributes"]
    assert found == find_traps(os.fsencode(tmp_path))


def test_links_out_of_the_tree_and_shared_bytes_are_told_apart(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "in").mkdir(parents=True)
    targets = {"in/out": "../../x", "in/side": "../y", "abs": "/etc", "here": ".", "up": ".."}
    for name, target in targets.items():
        (tree / name).symlink_to(target)
    (tree / "one").touch()
    os.link(tree / "one", tmp_path / "other")
    (tree / "two").touch()
    manifest = look(tree)
    outside = {path for path, item in manifest.paths() if leads_outside(path, item)}
    assert outside == {b"in/out", b"abs", b"up"}
    assert {path for path, item in manifest.paths() if has_other_names(item)} == {b"one"}
