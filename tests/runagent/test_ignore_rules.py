"""The rules of a repository are taken out of its commit by one git, however many there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import CouldNotCheck
from runagent.deadline import Deadline
from runagent.git.ignore_rules import IgnoreRules, folders_of
from runagent.git.shadow_git import ShadowGit
from runagent.process import ProcessSpec, RunningProcess, system_runner
from tests.support.repositories import git, make_repository

FILES = {f"d{number}/.gitignore": f"out{number}\n" for number in range(12)}


class Counting:
    """The real runner, and which git commands it was asked for."""

    def __init__(self) -> None:
        self._inner = system_runner()
        self.commands: list[str] = []

    def start(self, spec: ProcessSpec) -> RunningProcess:
        words = iter(spec.argv[1:])
        self.commands.append(next(word for word in _plain(words)))
        return self._inner.start(spec)


def _plain(words: object) -> list[str]:
    kept, skips = [], False
    for word in words:  # type: ignore[attr-defined]
        if not (skips or word.startswith("-")):
            kept.append(word)
        skips = word == "-c"
    return kept


@pytest.fixture
def rules(tmp_path: Path) -> tuple[IgnoreRules, Counting, str]:
    repo = make_repository(tmp_path / "repo", {**FILES, ".gitignore": "*.log\n", "a/b": "x"})
    git(repo, "tag", "start")
    runner = Counting()
    git(repo, "clone", "-q", "--bare", str(repo), str(tmp_path / "shadow"))
    (tmp_path / "shadow" / "empty").touch()
    shadow = ShadowGit(str(tmp_path / "shadow"), str(repo), runner)
    return IgnoreRules(shadow, runner), runner, git(repo, "rev-parse", "start").strip()


def test_all_rule_files_are_read_by_one_git(rules: tuple[IgnoreRules, Counting, str]) -> None:
    taken, runner, commit = rules
    taken.take(commit, (), Deadline(60.0))
    assert runner.commands == ["ls-tree", "cat-file"]
    asked = [b"d3/out3", b"d3/out4", b"x.log", b"a/b"]
    assert taken.ignored(asked, (), Deadline(60.0)) == {b"d3/out3", b"x.log"}
    assert b"a/b" in taken.tracked
    assert taken.folders == {b"a", *(f"d{number}".encode() for number in range(12))}


def test_files_that_are_known_already_are_not_listed_again(
    rules: tuple[IgnoreRules, Counting, str], tmp_path: Path
) -> None:
    taken, runner, commit = rules
    listing = git(tmp_path / "repo", "ls-files", "--stage", "-z").encode()
    records = [record.partition(b"\t") for record in listing.split(b"\0") if record]
    entries = {path: head.removesuffix(b" 0") for head, _, path in records}
    taken.take(commit, (), Deadline(60.0), entries=entries)
    assert runner.commands == ["cat-file"]
    assert taken.tracked == entries.keys()
    assert taken.ignored([b"d11/out11"], (), Deadline(60.0)) == {b"d11/out11"}


def test_a_rule_file_that_git_does_not_have_is_told(
    rules: tuple[IgnoreRules, Counting, str],
) -> None:
    taken, _, commit = rules
    with pytest.raises(CouldNotCheck, match="did not print"):
        taken.take(commit, (), Deadline(60.0), entries={b".gitignore": b"100644 " + b"0" * 40})


def test_the_folders_of_paths_are_all_above_them() -> None:
    assert folders_of([b"a/b/c", b"a/d", b"e"]) == {b"a", b"a/b"}
