"""What is read when, and which files differ between two looks by their bytes alone."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runagent.deadline import Deadline
from runagent.evidence.conversions import rewrites_on_checkout
from runagent.evidence.ignored_paths import IgnoredPaths, hidden_by_rules, is_tool_cache
from runagent.files.file_contents import Content, ContentReader
from runagent.files.file_looks import TreeLook, TreeWatcher
from runagent.files.manifest import ManifestBounds
from runagent.files.tree_differences import Differences, tell_differences
from tests.support.repositories import git, make_repository

NOTHING = IgnoredPaths((), {})


class Tree:
    """A folder with a watcher over it."""

    def __init__(self, path: Path, bounds: ManifestBounds | None = None) -> None:
        self.path = path
        self.watcher = TreeWatcher(str(path), algorithm="sha1", bounds=bounds or ManifestBounds())

    def start(self) -> TreeLook:
        return self.watcher.start(Deadline(60.0), {}, lambda _path: True)

    def look(self, before: TreeLook, ignored: IgnoredPaths = NOTHING) -> TreeLook:
        manifest = self.watcher.walk(Deadline(60.0), before)
        return self.watcher.read(manifest, before, Deadline(60.0), ignored.__contains__)

    def age(self) -> None:
        """Let the clock of the files go on, so that what stands here is proven."""
        marker = self.path / "marker"
        began = time.monotonic()
        while time.monotonic() - began < 60:
            marker.touch()
            others = [file.stat().st_ctime_ns for file in self.path.iterdir() if file != marker]
            if marker.stat().st_ctime_ns - max(others, default=0) > 60_000_000:
                return
            time.sleep(0.01)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name in ("one", "two", "three"):
        (tmp_path / name).write_text(f"{name}\n")
    return Tree(tmp_path)


def test_the_id_of_a_file_is_the_one_that_git_gives_it(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"a/b": "text\n", "empty": "", "lines": "x\r\ny\r\n"})
    reader = ContentReader(str(repo), Deadline(60.0))
    for name in ("a/b", "empty", "lines"):
        content = reader.read(name.encode())
        assert content is not None
        assert content.raw.decode() == git(repo, "hash-object", "--no-filters", name)
    lines = reader.read(b"lines")
    assert lines is not None and lines.lines != lines.raw
    (repo / "lines").write_text("x\ny\n")
    again = reader.read(b"lines")
    assert again is not None and again.is_like(lines) and again.raw != lines.raw


def test_a_large_file_is_read_in_parts_and_has_the_same_id(tmp_path: Path) -> None:
    data = os.urandom(1024) * 9 * 1024
    (tmp_path / "large").write_bytes(data)
    wanted = hashlib.sha256(b"blob %d\0" % len(data) + data).hexdigest().encode()
    for by_descriptor in (True, False):
        reader = ContentReader(
            str(tmp_path), Deadline(60.0), algorithm="sha256", by_descriptor=by_descriptor
        )
        assert reader.read(b"large") == Content(wanted, wanted)


def test_nothing_but_a_regular_file_is_opened_and_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x")
    (tmp_path / "door").symlink_to("folder")
    (tmp_path / "link").symlink_to("folder/file")
    os.mkfifo(tmp_path / "pipe")
    reader = ContentReader(str(tmp_path), Deadline(60.0))
    assert reader.read(b"folder/file") is not None
    for path in (b"door/file", b"link", b"pipe", b"folder", b"gone", b"folder/file/x"):
        assert reader.read(path) is None, path


def test_what_lies_beyond_the_bounds_is_not_read(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text("12345678")
    bounds = ManifestBounds(file_bytes_max=8, bytes_max=16)
    reader = ContentReader(str(tmp_path), Deadline(60.0), bounds=bounds)
    assert [reader.read(name) is None for name in (b"a", b"b", b"c")] == [False, False, True]
    late = ContentReader(str(tmp_path), Deadline(0.0))
    assert late.read(b"a") is None


def test_an_untouched_tree_has_no_differences_and_a_touched_one_neither(tree: Tree) -> None:
    start = tree.start()
    assert tell_differences(start, tree.look(start)).are_none
    for name in ("one", "two"):
        os.utime(tree.path / name, (1, 1))
    assert tell_differences(start, tree.look(start)).are_none


def test_what_is_proven_is_not_read_again(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.age()
    start = tree.start()
    read: list[bytes] = []
    monkeypatch.setattr(ContentReader, "read", lambda _self, path: read.append(path))
    tree.look(start)
    assert read == [b"marker"], "the youngest file alone is in doubt"


def test_every_kind_of_change_is_told(tree: Tree) -> None:
    start = tree.start()
    path = tree.path
    (path / "one").write_text("ONE\n")
    (path / "two").unlink()
    (path / "three").chmod(0o755)
    (path / "new").write_text("new\n")
    (path / "link").symlink_to("one")
    os.mkfifo(path / "pipe")
    (path / "sub" / ".git").mkdir(parents=True)
    found = tell_differences(start, tree.look(start))
    assert found.changed == {b"one", b"two", b"three", b"new", b"link"}
    assert found.special == {b"pipe"}
    assert found.git_folders == {b"sub/.git"}
    assert not found.are_none and not found.unread


def test_a_file_that_becomes_a_folder_or_a_pipe_is_changed(tree: Tree) -> None:
    start = tree.start()
    (tree.path / "one").unlink()
    (tree.path / "one").mkdir()
    (tree.path / "two").unlink()
    os.mkfifo(tree.path / "two")
    now = tree.look(start)
    assert tell_differences(start, now).changed == {b"one", b"two"}
    (tree.path / "two").unlink()
    os.mkfifo(tree.path / "two")
    assert not tell_differences(now, tree.look(now)).special, "one pipe for another is no news"


def test_line_ends_alone_are_told_apart(tree: Tree) -> None:
    start = tree.start()
    (tree.path / "one").write_bytes(b"one\r\n")
    (tree.path / "two").write_bytes(b"two\r\nmore\r\n")
    found = tell_differences(start, tree.look(start))
    assert found.lines == {b"one"}
    assert found.changed == {b"two"}


def test_a_change_in_the_same_moment_of_the_clock_is_read(tree: Tree) -> None:
    start = tree.start()
    before = start.manifest
    (tree.path / "one").write_text("eno\n")
    now = tree.look(start)
    # As if the clock had not moved: the item is as before, and the bytes are not.
    same = TreeLook(manifest=before, contents=now.contents)
    assert tell_differences(start, same).changed == {b"one"}


def test_a_file_too_large_to_read_counts_as_changed_once_it_is_touched(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 100)
    (tmp_path / "growing").write_bytes(b"x" * 100)
    tree = Tree(tmp_path, ManifestBounds(file_bytes_max=10))
    start = tree.start()
    assert tell_differences(start, tree.look(start)).are_none
    os.utime(tmp_path / "large", (1, 1))
    (tmp_path / "growing").write_bytes(b"x" * 101)
    found = tell_differences(start, tree.look(start))
    assert found.changed == {b"large", b"growing"}
    assert found.unread == {b"large"}, "of the other the size says enough"


def test_ignored_new_files_are_not_read_and_still_told(tree: Tree) -> None:
    start = tree.start()
    (tree.path / "run.log").write_text("x")
    now = tree.look(start, IgnoredPaths([b"run.log"], {}))
    assert b"run.log" not in now.contents
    assert tell_differences(start, now).changed == {b"run.log"}


def test_what_a_look_left_out_is_neither_new_nor_gone(tmp_path: Path) -> None:
    for number in range(6):
        (tmp_path / str(number)).touch()
    whole = Tree(tmp_path).start()
    part = Tree(tmp_path, ManifestBounds(files_max=3)).start()
    assert tell_differences(whole, part).changed == set()
    assert tell_differences(part, whole).changed == set()
    closed = TreeLook(
        manifest=type(part.manifest)(folders={b"": {}}, unreadable=frozenset({b"sub"}))
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "file").touch()
    opened = Tree(tmp_path).start()
    assert b"sub/file" not in tell_differences(opened, closed).changed
    assert b"0" in tell_differences(opened, closed).changed


def test_no_differences_are_none() -> None:
    assert Differences().are_none
    assert not Differences(lines={b"x"}).are_none


@pytest.mark.parametrize(
    ("attributes", "rewrites"),
    [
        ("*.txt ident\n", True),
        ("*.txt text eol=crlf\n", True),
        ("*.txt crlf\n", True),
        ("*.txt working-tree-encoding=UTF-16\n", True),
        ("* text=auto\n*.png binary\n", False),
        ("*.bin filter=lfs diff=lfs merge=lfs -text\n", False),
        ("x" * 1_100_000, True),
    ],
)
def test_a_checkout_that_may_hold_other_bytes_is_known(
    tmp_path: Path, attributes: str, rewrites: bool
) -> None:
    (tmp_path / "shadow" / "info").mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".gitattributes").write_text(attributes)
    shadow, root = str(tmp_path / "shadow"), os.fsencode(tmp_path / "tree")
    assert rewrites_on_checkout(shadow, root, [b".gitattributes", b"a"]) is rewrites
    assert not rewrites_on_checkout(shadow, root, [b"a"])
    (tmp_path / "shadow" / "config").write_text("[core]\n\tautocrlf = true\n")
    assert rewrites_on_checkout(shadow, root, [b"a"])


def test_what_is_tracked_is_not_ignored_and_a_folder_covers_what_is_in_it() -> None:
    ignored = IgnoredPaths([b"out/", b"a.log"], {b"out/kept": b""})
    assert b"out/x/y" in ignored and b"a.log" in ignored
    assert b"out/kept" not in ignored and b"outer" not in ignored and "out/x" not in ignored
    assert ignored.shown(b"out/x/y") == b"out/"
    assert ignored.shown(b"a.log") == b"a.log"
    assert ignored.is_below_one(b"out/x") and not ignored.is_below_one(b"a.log")


def test_rules_hide_what_lies_below_them_and_tools_caches_are_no_alarm() -> None:
    ignored = [b"sub/x", b"sub/.venv/y", b"other/z", b".pytest_cache/v"]
    assert hidden_by_rules([b"sub/.gitignore"], ignored) == [b"sub/x"]
    assert hidden_by_rules([b".gitignore"], ignored) == [b"other/z", b"sub/x"]
    assert hidden_by_rules([], ignored) == []
    assert is_tool_cache(b"a/__pycache__/b.pyc") and not is_tool_cache(b"__pycache__")


@given(st.lists(st.binary(max_size=12).filter(lambda name: b"\0" not in name), max_size=6))
def test_any_names_can_be_asked_for(names: list[bytes]) -> None:
    ignored = IgnoredPaths(names, {})
    assert all(name in ignored for name in names)
    assert all(ignored.shown(name) for name in names if name)
