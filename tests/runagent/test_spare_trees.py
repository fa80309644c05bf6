"""A spare tree becomes the tree of a job: the same in everything as a checkout, or not taken."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from contracts.errors import CouldNotCheck, Refused
from runagent.deadline import Deadline
from runagent.evidence.evidence import EvidenceCollector
from runagent.files.tree_proof import proof_of
from runagent.git.shadow_git import ShadowGit
from runagent.git.trusted_git import TrustedGit
from runagent.process import ProcessSpec, RunningProcess, system_runner
from runagent.trees.spare import NO_SPARES
from runagent.trees.spare_checkout import put_in_place, warm_up
from runagent.trees.tree_registry import NoTreeRegistry
from runagent.trees.worktree import Worktree, prepare_worktree, remove_worktree, unlock_worktree
from tests.support.repositories import attempt_git, git, make_repository, prepare
from tests.support.spares import OneSpare

JOB = "0123456789abcdef0123"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = make_repository(
        tmp_path / "repo",
        {"a.txt": "a\n", "src/b.txt": "b\n", "old/gone.txt": "x\n", "run.sh": "#!/bin/sh\n"},
    )
    (made / "run.sh").chmod(0o755)
    (made / "link").symlink_to("a.txt")
    (made / ".gitignore").write_text("*.log\n")
    git(made, "add", "-A")
    git(made, "commit", "-q", "-m", "second")
    return made


def files_of(tree: str | Path) -> dict[str, tuple[int, str]]:
    """Return every name below `tree` but git's pointer, with mode and content."""
    found = {}
    for place, folders, names in os.walk(tree):
        for name in [*folders, *names]:
            path = Path(place, name)
            if path == Path(tree, ".git"):
                continue
            inner = os.readlink(path) if path.is_symlink() else ""
            text = path.read_text() if path.is_file() and not inner else inner
            found[str(path.relative_to(tree))] = (path.lstat().st_mode, text)
    return found


def cold_files(repo: Path, tmp_path: Path) -> dict[str, tuple[int, str]]:
    """Return what a checkout of its own holds."""
    return files_of(prepare(repo, tmp_path / "cold").path)


def looked_at(worktree: Worktree) -> tuple[bytes, ...]:
    """Return what the first look calls changed."""
    collector = EvidenceCollector(worktree, runner=system_runner())
    return collector.start().changed


def test_a_spare_becomes_the_worktree_of_a_job_and_git_knows_it_as_one(
    repo: Path, tmp_path: Path
) -> None:
    spares = OneSpare(repo)
    worktree = prepare(repo, tmp_path / "state", job_id=JOB, spares=spares)
    assert spares.became(worktree.path)
    assert files_of(worktree.path) == cold_files(repo, tmp_path)
    tree = Path(worktree.path)
    assert git(tree, "symbolic-ref", "HEAD") == f"refs/heads/wt/{JOB}/T-1"
    assert git(tree, "status", "--porcelain", "--ignored") == ""
    assert worktree.pointer == (tree / ".git").read_bytes()
    assert str(tree) in git(repo, "worktree", "list")
    assert looked_at(worktree) == ()
    assert spares.discarded == 1
    assert not Path(spares.spare.folder).exists()


def test_no_file_is_written_again_when_the_base_is_the_same(repo: Path, tmp_path: Path) -> None:
    spares = OneSpare(repo)
    before = {name: os.lstat(spares.tree / name).st_ctime_ns for name in files_of(spares.tree)}
    tree = prepare(repo, tmp_path / "state", spares=spares).path
    assert {name: os.lstat(Path(tree) / name).st_ctime_ns for name in files_of(tree)} == before


def test_a_spare_of_an_older_commit_is_moved_by_the_difference_alone(
    repo: Path, tmp_path: Path
) -> None:
    spares = OneSpare(repo)
    untouched = os.lstat(spares.tree / "src" / "b.txt").st_ctime_ns
    (repo / "a.txt").write_text("newer\n")
    (repo / "src" / "more.txt").write_text("more\n")
    (repo / "run.sh").chmod(0o644)
    shutil.rmtree(repo / "old")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "third")
    worktree = prepare(repo, tmp_path / "state", spares=spares)
    assert spares.became(worktree.path)
    assert files_of(worktree.path) == cold_files(repo, tmp_path)
    assert os.lstat(Path(worktree.path) / "src" / "b.txt").st_ctime_ns == untouched
    assert git(Path(worktree.path), "status", "--porcelain", "--ignored") == ""
    assert looked_at(worktree) == ()


def test_the_owner_removes_such_a_worktree_with_plain_git(repo: Path, tmp_path: Path) -> None:
    worktree = prepare(repo, tmp_path / "state", spares=OneSpare(repo))
    assert attempt_git(repo, "worktree", "remove", worktree.path).returncode != 0, "it is locked"
    unlock_worktree(worktree)
    git(repo, "worktree", "remove", worktree.path)
    assert not Path(worktree.path).exists()


def test_a_spare_waits_unknown_to_git(repo: Path) -> None:
    before = git(repo, "worktree", "list"), git(repo, "for-each-ref")
    spares = OneSpare(repo)
    assert (git(repo, "worktree", "list"), git(repo, "for-each-ref")) == before
    assert not (spares.tree / ".git").exists()


def write_and_restore_times(tree: Path) -> None:
    found = os.lstat(tree / "a.txt")
    (tree / "a.txt").write_text("b\n")
    os.utime(tree / "a.txt", ns=(found.st_atime_ns, found.st_mtime_ns))


def swap_a_folder(tree: Path) -> None:
    (tree / "src").rename(tree.parent / "src")
    (tree / "src").symlink_to(tree.parent / "src")


def plant_a_repository(tree: Path) -> None:
    git(tree, "init", "-q", "src")


def plant_a_pointer(tree: Path) -> None:
    (tree / ".git").write_text("gitdir: /elsewhere\n")


def write_and_take_back(tree: Path) -> None:
    (tree / "a.txt").write_text("b\n")
    (tree / "a.txt").write_text("a\n")


def open_a_folder(tree: Path) -> None:
    (tree / "src").chmod(0o777)


TAMPERING = {
    "a file is rewritten and its time restored": write_and_restore_times,
    "a file is written and brought back": write_and_take_back,
    "a file is added": lambda tree: (tree / "new.txt").write_text("x"),
    "a file that git ignores is added": lambda tree: (tree / "x.log").write_text("x"),
    "an empty folder is added": lambda tree: (tree / "empty").mkdir(),
    "a file is removed": lambda tree: (tree / "a.txt").unlink(),
    "a file may be run": lambda tree: (tree / "a.txt").chmod(0o755),
    "a file has another name outside": lambda tree: os.link(tree / "a.txt", tree.parent / "kept"),
    "a folder is open to all": open_a_folder,
    "a folder is a link": swap_a_folder,
    "a repository stands in it": plant_a_repository,
    "a pointer stands in it": plant_a_pointer,
    "a pipe stands in it": lambda tree: os.mkfifo(tree / "pipe"),
    "its index is another": lambda tree: (tree.parent / "shadow/index").write_bytes(b"DIRC"),
    "its index is gone": lambda tree: (tree.parent / "shadow/index").unlink(),
    "it is gone": shutil.rmtree,
}


@pytest.mark.parametrize("how", TAMPERING)
def test_a_spare_that_is_not_what_was_checked_out_is_dropped_for_a_checkout(
    repo: Path, tmp_path: Path, how: str
) -> None:
    spares = OneSpare(repo)
    TAMPERING[how](spares.tree)
    worktree = prepare(repo, tmp_path / "state", spares=spares)
    assert spares.takers == [worktree.job_id]
    assert files_of(worktree.path) == cold_files(repo, tmp_path)
    assert git(Path(worktree.path), "status", "--porcelain", "--ignored") == ""
    assert looked_at(worktree) == ()
    assert spares.discarded == 1
    assert not Path(spares.spare.folder).exists()


def commit_attributes(repo: Path) -> None:
    (repo / "src" / ".gitattributes").write_text("*.txt text eol=crlf\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "line ends")


def write_attributes(repo: Path) -> None:
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("*.txt text eol=crlf\n")


def start_anew(repo: Path) -> None:
    git(repo.parent, "clone", "-q", str(repo), "clone")
    shutil.rmtree(repo)
    (repo.parent / "clone").rename(repo)


def forget_history(repo: Path) -> None:
    git(repo, "checkout", "-q", "--orphan", "other")
    git(repo, "commit", "-q", "-m", "anew")
    git(repo, "branch", "-M", "master")
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")


OTHERWISE = {
    "attributes of the new base": commit_attributes,
    "attributes of the repository": write_attributes,
    "line ends": lambda repo: git(repo, "config", "core.autocrlf", "true"),
    "another clone": start_anew,
    "a collected commit": forget_history,
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_a_spare_that_a_checkout_would_now_write_otherwise_is_dropped(
    repo: Path, tmp_path: Path, what: str
) -> None:
    spares = OneSpare(repo)
    OTHERWISE[what](repo)
    worktree = prepare(repo, tmp_path / "state", spares=spares)
    assert not spares.became(worktree.path) or what == "another clone"
    cold = prepare(repo, tmp_path / "cold").path
    for name in ("a.txt", "src/b.txt"):
        assert (Path(worktree.path) / name).read_bytes() == (Path(cold) / name).read_bytes()
    assert spares.discarded == 1


def make_sparse(repo: Path) -> None:
    git(repo, "sparse-checkout", "set", "src")


def add_submodule(repo: Path) -> None:
    commit = git(repo, "rev-parse", "HEAD")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
    git(repo, "commit", "-q", "-m", "a submodule")


def never_normalise(repo: Path) -> None:
    (repo / "a.txt").write_bytes(b"a\r\n")
    git(repo, "commit", "-q", "-a", "-m", "line ends")
    (repo / ".gitattributes").write_text("*.txt text eol=crlf\n")
    git(repo, "add", ".gitattributes")
    git(repo, "commit", "-q", "-m", "attributes")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        (make_sparse, "sparse"),
        (add_submodule, "submodules"),
        (never_normalise, "not what the commit says"),
    ],
)
def test_a_repository_whose_checkout_is_no_plain_one_gets_no_spare(
    repo: Path, what: object, told: str
) -> None:
    assert callable(what)
    what(repo)
    with pytest.raises(Refused, match=told) as caught:
        OneSpare(repo)
    assert caught.value.code == "no_spare"


def test_a_repository_with_more_bytes_than_are_left_gets_no_spare(repo: Path) -> None:
    with pytest.raises(Refused, match="bytes"):
        OneSpare(repo, max_bytes=3)


def test_a_spare_on_another_volume_is_dropped(repo: Path, tmp_path: Path) -> None:
    spares = OneSpare(repo)
    shadow = ShadowGit(str(tmp_path / "shadow"), str(tmp_path / "tree"), system_runner())
    elsewhere = next(
        place
        for place in ("/dev/shm", "/proc", "/sys")
        if os.path.isdir(place) and os.stat(place).st_dev != os.stat(tmp_path).st_dev
    )
    warm = warm_up(
        spares,
        TrustedGit(str(repo)),
        str(repo / ".git"),
        job_id=JOB,
        commit=spares.spare.base_commit,
        shadow=shadow,
        volume_of=elsewhere,
        deadline=Deadline(60.0),
    )
    assert warm is None
    assert spares.discarded == 1
    assert not (tmp_path / "shadow").exists()


def test_a_tree_that_cannot_take_its_place_leaves_the_new_worktree_as_it_was(
    repo: Path, tmp_path: Path
) -> None:
    spares = OneSpare(repo)
    shadow = ShadowGit(str(tmp_path / "shadow"), str(tmp_path / "tree"), system_runner())
    warm = warm_up(
        spares,
        TrustedGit(str(repo)),
        str(repo / ".git"),
        job_id=JOB,
        commit=spares.spare.base_commit,
        shadow=shadow,
        volume_of=str(tmp_path),
        deadline=Deadline(60.0),
    )
    assert warm is not None
    path = tmp_path / "tree"
    path.mkdir()
    (path / ".git").write_text("gitdir: here\n")
    (path / "somebody's").write_text("work\n")
    assert not put_in_place(warm, str(path))
    assert not (tmp_path / "shadow").exists()
    assert sorted(os.listdir(path)) == [".git", "somebody's"]


class _Refusing(NoTreeRegistry):
    def stands(self, job_id: str, *, admin_dir: str, identity: str) -> None:
        raise CouldNotCheck("the journal is gone")


def test_a_job_that_fails_right_after_the_hand_over_leaves_nothing(
    repo: Path, tmp_path: Path
) -> None:
    spares = OneSpare(repo)
    (tmp_path / "state").mkdir()
    before = git(repo, "for-each-ref"), git(repo, "worktree", "list")
    with pytest.raises(CouldNotCheck, match="journal is gone"):
        prepare_worktree(
            str(repo),
            job_id=JOB,
            ticket="T-1",
            branch=None,
            shadow_dir=str(tmp_path / "state" / JOB),
            runner=system_runner(),
            deadline_s=60.0,
            trees=_Refusing(),
            spares=spares,
        )
    assert (git(repo, "for-each-ref"), git(repo, "worktree", "list")) == before
    assert not (tmp_path / "repo-agents").exists()
    assert os.listdir(tmp_path / "state") == []
    assert not Path(spares.spare.folder).exists()


class _Counting:
    def __init__(self) -> None:
        self.commands: list[str] = []

    def start(self, spec: ProcessSpec) -> RunningProcess:
        self.commands += [word for word in spec.argv if word in ("read-tree", "diff-tree")]
        return system_runner().start(spec)


def test_one_command_fills_a_worktree_and_one_more_is_asked_when_the_base_moved(
    repo: Path, tmp_path: Path
) -> None:
    cold, warm = _Counting(), _Counting()
    spares = OneSpare(repo)
    prepare(repo, tmp_path / "cold", runner=cold)
    (repo / "a.txt").write_text("newer\n")
    git(repo, "commit", "-q", "-a", "-m", "third")
    prepare(repo, tmp_path / "warm", runner=warm, spares=spares)
    assert cold.commands == ["read-tree"]
    assert warm.commands == ["diff-tree", "read-tree"]


def test_nothing_is_proved_by_a_tree_that_cannot_be_looked_at_whole(tmp_path: Path) -> None:
    assert proof_of(str(tmp_path / "none"), Deadline(60.0)) == ""
    tree = tmp_path / "tree"
    tree.mkdir()
    assert proof_of(str(tree), Deadline(60.0)) != ""
    assert proof_of(str(tree), Deadline(60.0)) == proof_of(str(tree), Deadline(60.0))


def test_a_store_without_spares_has_none(repo: Path, tmp_path: Path) -> None:
    worktree = prepare(repo, tmp_path / "state", spares=NO_SPARES)
    assert NO_SPARES.take(worktree.common_dir, JOB) is None
    spare = OneSpare(repo).spare
    NO_SPARES.discard(dataclasses.replace(spare, name="other"))
    assert Path(spare.tree).is_dir()
    remove_worktree(worktree)
