"""How far the clock of the files was when a look began, and what that proves of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from runagent.deadline import Deadline
from runagent.evidence.evidence import EvidenceCollector
from runagent.files import file_clock, manifest_walk
from runagent.files.file_clock import NOTHING_PROVEN, read_clock_ns
from runagent.files.file_looks import TreeWatcher
from runagent.files.manifest import ManifestBounds
from runagent.files.manifest_walk import take_manifest
from runagent.process import system_runner
from tests.support.repositories import make_repository, prepare
from tests.support.unstamped import write_unstamped
from tests.support.volumes import small_volume


def clock_of(folder: Path) -> int | None:
    return read_clock_ns(os.fsencode(folder), folder.stat().st_dev)


pytestmark = pytest.mark.linux


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    assert clock_of(tmp_path) is not None, "this file system makes no file without a name"
    (tmp_path / "tree").mkdir()
    return tmp_path / "tree"


def look_later(tree: Path) -> None:
    """Wait until the clock of the files is surely beyond what stands in the tree."""
    youngest = max(path.stat().st_ctime_ns for path in tree.iterdir())
    until = time.monotonic() + 60
    while (clock_of(tree) or 0) - youngest <= 60_000_000 and time.monotonic() < until:
        time.sleep(0.01)


def test_it_goes_with_the_times_of_files_and_leaves_nothing_behind(tree: Path) -> None:
    (tree / "before").touch()
    told = clock_of(tree)
    (tree / "after").touch()
    assert told is not None
    assert (tree / "before").stat().st_ctime_ns <= told <= (tree / "after").stat().st_ctime_ns
    assert sorted(path.name for path in tree.iterdir()) == ["after", "before"]


def test_another_disk_and_a_folder_that_is_not_there_tell_no_time(tree: Path) -> None:
    assert read_clock_ns(os.fsencode(tree), tree.stat().st_dev + 1) is None
    assert read_clock_ns(os.fsencode(tree / "gone"), tree.stat().st_dev) is None
    (tree / "file").touch()
    assert read_clock_ns(os.fsencode(tree / "file"), tree.stat().st_dev) is None


def test_where_there_are_no_nameless_files_the_youngest_stands_for_the_clock(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_clock, "_NAMELESS", 0)
    (tree / "file").touch()
    look_later_than = time.time_ns()
    manifest = take_manifest(str(tree), Deadline(60.0), asks_clock=True)
    assert manifest.clock_ns is None
    assert manifest.proven_ns < (tree / "file").stat().st_ctime_ns <= look_later_than + 10**9


def test_a_fresh_checkout_is_proven_once_the_clock_has_gone_on(tree: Path) -> None:
    """The last files of a checkout were written within one step of each other: without the clock
    they would be read at the next look, a quarter of a fast checkout."""
    for number in range(50):
        (tree / str(number)).write_text(str(number))
    look_later(tree)
    read: list[bytes] = []

    def wants(path: bytes) -> bool:
        read.append(path)
        return False

    watcher = watching(tree)
    start = watcher.start(Deadline(60.0), {}, wants)
    later = watcher.read(
        watcher.walk(Deadline(60.0), start), start, Deadline(60.0), lambda _: False
    )
    assert len(read) == 50
    assert later.contents == {}
    assert later.unread == frozenset()


def watching(tree: Path) -> TreeWatcher:
    return TreeWatcher(str(tree), algorithm="sha1", bounds=ManifestBounds(), asks_clock=True)


def test_a_file_changed_in_the_step_in_which_the_look_began_is_read_again(tree: Path) -> None:
    """Nothing but its bytes tells two changes in one step apart: same item, other content."""
    (tree / "old").write_text("old")
    look_later(tree)
    watcher = watching(tree)
    for _ in range(1000):  # a busy machine may let the step go by
        (tree / "young").write_text("young")
        start = watcher.start(Deadline(60.0), {}, lambda _: True)
        if start.manifest.proven_ns < (tree / "young").stat().st_ctime_ns:
            break
    later = watcher.read(
        watcher.walk(Deadline(60.0), start), start, Deadline(60.0), lambda _: False
    )
    assert start.manifest.proven_ns < (tree / "young").stat().st_ctime_ns
    assert (tree / "old").stat().st_ctime_ns <= start.manifest.proven_ns
    assert later.contents.keys() == {b"old", b"young"}
    assert manifest_walk.BY_DESCRIPTOR
    assert later.contents[b"young"] is not start.contents[b"young"]
    assert later.contents[b"old"] is start.contents[b"old"]


def test_a_clock_that_was_put_back_leaves_everything_in_doubt(tree: Path) -> None:
    (tree / "file").touch()
    manifest = take_manifest(str(tree), Deadline(60.0), asks_clock=True)
    assert manifest.clock_ns is not None
    assert manifest.proven_ns < manifest.clock_ns


def test_a_disk_that_stamps_no_write_through_memory_proves_nothing(tmp_path: Path) -> None:
    with small_volume(tmp_path / "memory", megabytes=4) as folder:
        assert clock_of(folder) == NOTHING_PROVEN
        assert list(folder.iterdir()) == []


def test_a_disk_without_room_for_the_question_proves_nothing(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_clock.os, "write", full)
    assert clock_of(tree) == NOTHING_PROVEN


def test_a_change_that_moves_no_time_at_all_is_reported(tmp_path: Path) -> None:
    """An agent maps a file, reads the page, then writes to it: tmpfs stamps nothing."""
    with small_volume(tmp_path / "memory", megabytes=4) as folder:
        repo = make_repository(folder / "repo", {"a.txt": "a" * 50, "b.txt": "b" * 50})
        worktree = prepare(repo, folder / "state")
        tree = Path(worktree.path)
        time.sleep(0.1)  # beyond the step of the clock in which it was checked out
        collector = EvidenceCollector(worktree, runner=system_runner())
        collector.start()
        before = (tree / "a.txt").stat()
        write_unstamped(tree / "a.txt", b"evil")
        after = (tree / "a.txt").stat()
        assert (tree / "a.txt").read_bytes()[:4] == b"evil"
        assert (before.st_mtime_ns, before.st_ctime_ns) == (after.st_mtime_ns, after.st_ctime_ns)
        collector.after_agent()
        assert collector.after_validation().changed == (b"a.txt",)
