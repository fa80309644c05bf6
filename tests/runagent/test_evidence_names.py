"""Names and kinds of change: exact bytes, renames, modes, links, deletions, whole folders."""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runagent.evidence.snapshot import parse_name_status, parse_status
from runagent.shown_path import display_path
from tests.support.repositories import attempt_git, collect, git, make_repository, write

ODD_NAMES = [
    b"a -> b",
    b"two\nlines",
    b"a\ttab",
    b'a "quote"',
    b" leading and trailing ",
    b"back\\slash",
    b"-dash",
    b"--option=x",
    b":(top)magic",
    b"star*?[x]",
    "ünïcödé".encode(),
    b"latin-\xe9\xff",
    b"$(touch fired)",
    b"#hash",
    b"!bang",
    b"R  fake",
]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    files = {f"src/file{number}.txt": f"line {number}\n" * 20 for number in range(4)}
    return make_repository(tmp_path / "repo", files)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_every_odd_name_is_reported_with_its_exact_bytes(repo: Path) -> None:
    def agent(tree: Path) -> None:
        for name in ODD_NAMES:
            with open(os.path.join(os.fsencode(tree), name), "wb") as file:
                file.write(name)

    run = collect(repo, agent)
    control = attempt_git(run.tree, "status", "--porcelain").stdout
    assert b"two\nlines" not in control, "without -z plain git quotes"
    assert run.evidence.changed == tuple(sorted(ODD_NAMES))
    assert run.evidence.agent_changed == run.evidence.changed
    assert run.evidence.risks == ()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_odd_names_of_tracked_files_survive_edits_renames_and_deletions(repo: Path) -> None:
    def place(tree: Path, name: bytes) -> bytes:
        return os.path.join(os.fsencode(tree), name)

    for name in ODD_NAMES:
        with open(place(repo, name), "wb") as file:
            file.write(name * 30)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "odd names")

    def agent(tree: Path) -> None:
        for number, name in enumerate(ODD_NAMES):
            if number % 3 == 0:
                os.unlink(place(tree, name))
            elif number % 3 == 1:
                with open(place(tree, name), "ab") as file:
                    file.write(b"more")
            else:
                os.rename(place(tree, name), place(tree, b"new " + name))

    evidence = collect(repo, agent).evidence
    moved = {name: b"new " + name for name in ODD_NAMES[2::3]}
    assert dict(evidence.renames) == moved
    assert set(evidence.changed) == {moved.get(name, name) for name in ODD_NAMES}


def test_an_unstaged_move_is_a_rename_with_the_new_path_alone(repo: Path) -> None:
    def agent(tree: Path) -> None:
        (tree / "src" / "file0.txt").rename(tree / "moved.txt")

    run = collect(repo, agent)
    control = git(run.tree, "status", "--porcelain")
    assert "R" not in control, "plain git shows a deletion and an untracked file"
    assert run.evidence.changed == (b"moved.txt",)
    assert run.evidence.agent_changed == (b"moved.txt",)
    assert run.evidence.renames == ((b"src/file0.txt", b"moved.txt"),)


def test_a_staged_move_is_the_same_rename(repo: Path) -> None:
    evidence = collect(repo, lambda tree: void(git(tree, "mv", "src/file0.txt", "to"))).evidence
    assert evidence.changed == (b"to",)
    assert evidence.renames == ((b"src/file0.txt", b"to"),)


def test_a_committed_move_is_the_same_rename(repo: Path) -> None:
    def agent(tree: Path) -> None:
        git(tree, "mv", "src/file0.txt", "to")
        git(tree, "commit", "-q", "-m", "move")

    evidence = collect(repo, agent).evidence
    assert evidence.changed == evidence.committed == (b"to",)
    assert evidence.renames == ((b"src/file0.txt", b"to"),)


def test_every_file_of_a_new_folder_is_listed(repo: Path) -> None:
    def agent(tree: Path) -> None:
        for name in ("one", "two", "deep/three"):
            write(f"new/{name}")(tree)

    run = collect(repo, agent)
    assert git(run.tree, "status", "--porcelain") == "?? new/", "plain git collapses it"
    assert run.evidence.changed == (b"new/deep/three", b"new/one", b"new/two")


def test_a_deletion_is_a_change(repo: Path) -> None:
    evidence = collect(repo, lambda tree: (tree / "src" / "file1.txt").unlink()).evidence
    assert evidence.changed == (b"src/file1.txt",)
    assert evidence.agent_change_survives


@pytest.mark.parametrize("configured", ["true", "false"])
def test_a_change_of_mode_alone_is_reported_whatever_the_repository_says(
    repo: Path, configured: str
) -> None:
    git(repo, "config", "core.fileMode", configured)
    run = collect(repo, lambda tree: (tree / "src" / "file1.txt").chmod(0o755))
    if configured == "false":
        assert git(run.tree, "status", "--porcelain") == "", "plain git sees nothing"
    assert run.evidence.changed == (b"src/file1.txt",)
    assert run.evidence.agent_change_survives


def test_a_file_that_becomes_a_link_is_a_change_and_the_link_is_not_followed(
    repo: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("x")

    def agent(tree: Path) -> None:
        (tree / "src" / "file1.txt").unlink()
        (tree / "src" / "file1.txt").symlink_to("file2.txt")
        (tree / "door").symlink_to(outside)

    assert collect(repo, agent).evidence.changed == (b"door", b"src/file1.txt")


def test_a_folder_that_becomes_a_link_to_its_copy_is_a_change(repo: Path) -> None:
    def agent(tree: Path) -> None:
        (tree / "src").rename(tree / "copy")
        (tree / "src").symlink_to("copy")

    evidence = collect(repo, agent).evidence
    names = {b"src", *(b"copy/file%d.txt" % number for number in range(4))}
    assert set(evidence.changed) == names
    assert len(evidence.renames) == 4


def test_a_folder_that_becomes_a_file_and_a_file_that_becomes_a_folder(repo: Path) -> None:
    def agent(tree: Path) -> None:
        for file in (tree / "src").iterdir():
            file.unlink()
        (tree / "src").rmdir()
        (tree / "src").write_text("a file now\n")

    evidence = collect(repo, agent).evidence
    assert b"src" in evidence.changed
    assert b"src/file0.txt" in evidence.changed

    def back(tree: Path) -> None:
        (tree / "src" / "file0.txt").unlink()
        write("src/file0.txt/inner")(tree)

    assert collect(repo, back).evidence.changed == (b"src/file0.txt", b"src/file0.txt/inner")


def test_names_that_differ_in_case_alone_are_two_files(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "probe").touch()
    if (tmp_path / "PROBE").exists():
        pytest.skip("platform: this disk does not tell upper from lower case")

    def agent(tree: Path) -> None:
        (tree / "SRC").mkdir()
        (tree / "SRC" / "File0.txt").write_text("x")

    assert collect(repo, agent).evidence.changed == (b"SRC/File0.txt",)


def test_a_pipe_or_a_socket_blocks_nothing(repo: Path) -> None:
    def agent(tree: Path) -> None:
        os.mkfifo(tree / "pipe")
        (tree / "src" / "file1.txt").unlink()
        os.mkfifo(tree / "src" / "file1.txt")
        (tree / "real").write_text("x")

    assert collect(repo, agent).evidence.changed == (b"real", b"src/file1.txt")


def test_files_of_the_main_checkout_in_progress_are_not_the_agents(repo: Path) -> None:
    (repo / "draft").write_text("the owner's")
    (repo / "src" / "file0.txt").write_text("the owner's")
    evidence = collect(repo, write("mine")).evidence
    assert evidence.changed == (b"mine",)


def test_line_ends_that_were_never_normalised_are_part_of_the_start(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"old.txt": "one\r\ntwo\r\n", "other": "x"})
    (repo / ".gitattributes").write_text("*.txt text\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-q", "-m", "attributes without renormalising")
    run = collect(repo, write("mine"))
    (run.tree / "old.txt").touch()
    assert b"old.txt" in attempt_git(run.tree, "status", "--porcelain").stdout, "plain git lists it"
    assert run.evidence.changed == (b"mine",)


def test_an_unchanged_checkout_with_carriage_returns_has_no_change(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"a.txt": "one\ntwo\n"})
    git(repo, "config", "core.autocrlf", "true")

    def agent(tree: Path) -> None:
        (tree / "a.txt").write_bytes((tree / "a.txt").read_bytes())

    evidence = collect(repo, agent).evidence
    assert evidence.changed == ()
    assert not evidence.agent_change_survives


def test_work_inside_and_outside_a_sparse_checkout_is_seen(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", {"a/x": "1", "b/y": "2", "top": "3"})
    git(repo, "sparse-checkout", "set", "a")

    def agent(tree: Path) -> None:
        write("a/x", "changed")(tree)
        write("b/new")(tree)

    assert collect(repo, agent).evidence.changed == (b"a/x", b"b/new")


def test_a_name_that_is_not_utf8_is_shown_and_can_be_recovered() -> None:
    shown, encoded = display_path(b"caf\xe9")
    assert shown == "caf\\xe9"
    assert encoded is not None
    assert base64.b64decode(encoded) == b"caf\xe9"
    assert display_path(b"caf\\xe9") == ("caf\\xe9", None), "the base64 tells the two apart"


@given(st.binary(max_size=60))
def test_any_name_makes_valid_json_and_can_be_recovered(raw: bytes) -> None:
    shown, encoded = display_path(raw)
    assert json.loads(json.dumps(shown).encode()) == shown
    assert (shown.encode() if encoded is None else base64.b64decode(encoded)) == raw


NAME = st.binary(min_size=1, max_size=20).filter(lambda name: b"\0" not in name)


@given(st.lists(st.tuples(st.sampled_from([b"??", b"!!", b" M", b"A ", b"R ", b"RM"]), NAME, NAME)))
def test_any_listing_of_status_is_read_back_whole(rows: list[tuple[bytes, bytes, bytes]]) -> None:
    listing = b""
    changed, renames, ignored = set(), [], []
    for letters, path, source in rows:
        listing += letters + b" " + path + b"\0"
        if letters == b"!!":
            ignored.append(path)
            continue
        changed.add(path)
        if b"R" in letters:
            listing += source + b"\0"
            renames.append((source, path))
    assert parse_status(listing) == (
        tuple(sorted(changed)),
        tuple(sorted(renames)),
        tuple(sorted(ignored)),
    )


@given(st.lists(st.tuples(st.sampled_from([b"A", b"D", b"M", b"T", b"R100"]), NAME, NAME)))
def test_any_listing_of_a_comparison_is_read_back_whole(
    rows: list[tuple[bytes, bytes, bytes]],
) -> None:
    fields: list[bytes] = []
    for letter, path, source in rows:
        fields += [letter, source, path] if letter.startswith(b"R") else [letter, path]
    assert parse_name_status(b"".join(field + b"\0" for field in fields)) == {
        path for _, path, _ in rows
    }


def void(_value: object) -> None:
    """Drop a value."""
