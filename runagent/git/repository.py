"""Admission of a repository on this host: may a worktree be cut from it, and where from.

Everything here is asked before anything is made. What is refused says why and how to mend it.
Nothing is guessed: a folder inside somebody's work tree is not that work tree, and an explicit
branch that is missing is never replaced by another.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final

from contracts.errors import CouldNotCheck, RepositoryRefused
from contracts.run_agent import RunAgentRequest
from runagent.git.trusted_git import TrustedGit, first_line

_FACTS: Final = 3  # that git tells of any repository, one with no work tree included
_UNUSABLE_IN_GIT_FILES: Final = "\n\r\0"  # git's own pointer files are lines of text


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that we may cut worktrees from. Paths are absolute and free of links."""

    main: str  # the main work tree
    common_dir: str  # the git directory that all its worktrees share
    git: TrustedGit


@dataclass(frozen=True, slots=True)
class Base:
    """Where a worktree starts: the ref as people say it, and the commit it names now."""

    ref: str
    commit: str


def admit_repository(path: str) -> Repository:
    """Return the repository whose work tree stands at `path`.

    A linked worktree leads to its main work tree, or stands for itself when the repository has
    none. Raises RepositoryRefused (`repo_missing`, `not_a_repo`, `bare`, `not_trusted`),
    CouldNotCheck or Unavailable.
    """
    real = _existing_folder(path)
    git = TrustedGit(real)
    # All at once; where there is no work tree git says the first three and then refuses the last.
    answer = git.ask(
        *("rev-parse", "--path-format=absolute", "--is-bare-repository"),
        *("--git-dir", "--git-common-dir", "--show-toplevel"),
    )
    told = answer.line.split("\n")
    if len(told) < _FACTS:
        raise _refusal_of_git(real, answer.error)
    (bare, git_dir, common_dir), top = told[:_FACTS], "".join(told[_FACTS:])
    if bare == "true":
        raise RepositoryRefused(
            f"{real} is a bare repository: it has no work tree",
            code="bare",
            remedy="name a clone of it that has a work tree",
        )
    if not answer.ok or os.path.realpath(top) != real:
        raise RepositoryRefused(
            f"{real} is not the top of a work tree",
            code="not_a_repo",
            remedy=f"name {top}" if answer.ok else "name the folder that holds .git",
        )
    common = os.path.realpath(common_dir)
    if os.path.realpath(git_dir) == common:
        return Repository(real, common, git)
    return _main_of_linked(Repository(real, common, git))


def choose_base(repository: Repository, branch: str | None) -> Base:
    """Return the commit to start from: `branch` when it is given, else `master`, else the branch
    that origin calls its default, else the only local branch.

    A branch may also be a remote-tracking branch (`origin/main`) or a tag. Raises
    RepositoryRefused (`no_commits`, `base_unknown`).
    """
    git = repository.git
    if branch is not None:
        return _named_base(repository, branch)
    default = RunAgentRequest.DEFAULT_BRANCH
    for find in (lambda _git: f"refs/heads/{default}", _default_of_origin, _only_local_branch):
        ref = find(git)  # nearly always the first, and then git is asked for no other
        object_id = git.object_id(ref) if ref else ""
        if object_id:
            return _peeled(git, _short(ref), object_id)
    _refuse_without_commits(repository)
    raise RepositoryRefused(
        f"there is no branch {default}, origin names no default, and there is not just one branch",
        code="base_unknown",
        remedy="say which branch to start from",
    )


def _existing_folder(path: str) -> str:
    if any(character in path for character in _UNUSABLE_IN_GIT_FILES) or not os.path.isabs(path):
        raise RepositoryRefused(
            "the repository's path is not an absolute path on one line",
            code="repo_missing",
            remedy="give the absolute path that the repository has on this host",
        )
    real = os.path.realpath(path)
    try:
        mode = os.stat(real).st_mode
    except OSError as error:
        raise RepositoryRefused(
            f"{path} cannot be read here: {error.strerror}",
            code="repo_missing",
            remedy="name a repository that is on this machine; for jobs from elsewhere, clone it "
            "here or map their path under [repo_paths]",
        ) from error
    if not stat.S_ISDIR(mode):
        raise RepositoryRefused(
            f"{path} is not a folder", code="not_a_repo", remedy="name the folder that holds .git"
        )
    return real


def _refusal_of_git(real: str, error_text: str) -> RepositoryRefused | CouldNotCheck:
    if "dubious ownership" in error_text or "safe.directory" in error_text:
        return RepositoryRefused(
            f"git does not trust {real}: it belongs to another user",
            code="not_trusted",
            remedy=f"run as its owner, or: git config --global --add safe.directory '{real}'",
        )
    if "not a git repository" in error_text:
        return RepositoryRefused(
            f"{real} is not a git repository",
            code="not_a_repo",
            remedy="name the folder that holds .git, or run git init and commit",
        )
    return CouldNotCheck(f"git cannot read {real}: {first_line(error_text)}")


def _main_of_linked(linked: Repository) -> Repository:
    """Return the main work tree beside a linked one. Git lists the main one first; for a bare
    repository or a separate git directory what it lists there is no work tree."""
    main = os.path.realpath(linked.git.worktrees()[0].get("worktree", ""))
    git = TrustedGit(main)
    if not os.path.isdir(main) or main == linked.common_dir:
        return linked
    answer = git.ask(
        "rev-parse", "--path-format=absolute", "--is-inside-work-tree", "--git-common-dir"
    )
    if not answer.ok:
        return linked
    inside, common = answer.line.split("\n")[:2]
    if inside != "true" or os.path.realpath(common) != linked.common_dir:
        return linked
    return Repository(main, linked.common_dir, git)


def _refuse_without_commits(repository: Repository) -> None:
    git = repository.git
    if git.tell("for-each-ref", "--count=1", "--format=%(refname)") or git.commit_of("HEAD"):
        return
    raise RepositoryRefused(
        f"{repository.main} has no commits", code="no_commits", remedy="commit something first"
    )


def _named_base(repository: Repository, branch: str) -> Base:
    git = repository.git
    # Full names only: what is not a ref (an option, `@{1}`, `:/text`, `a..b`) cannot be said.
    full = [branch] if branch.startswith("refs/") else []
    for ref in (f"refs/heads/{branch}", *full, f"refs/remotes/{branch}", f"refs/tags/{branch}"):
        object_id = git.object_id(ref)
        if object_id:
            return _peeled(git, branch, object_id)
    _refuse_without_commits(repository)
    raise RepositoryRefused(
        f"there is no branch {branch!r} in this repository",
        code="base_unknown",
        remedy="push or fetch it, or name one that exists",
    )


def _peeled(git: TrustedGit, ref: str, object_id: str) -> Base:
    commit = git.commit_of(object_id)
    if commit:
        return Base(ref, commit)
    raise RepositoryRefused(
        f"{ref!r} does not lead to a commit",
        code="base_unknown",
        remedy="name a branch, or a tag of a commit",
    )


def _default_of_origin(git: TrustedGit) -> str:
    answer = git.ask("symbolic-ref", "--quiet", "refs/remotes/origin/HEAD")
    return answer.line if answer.ok else ""


def _only_local_branch(git: TrustedGit) -> str:
    # Branches of jobs are ours; they never make a second candidate.
    listed = git.tell("for-each-ref", "--format=%(refname)", "refs/heads/").splitlines()
    own = [ref for ref in listed if not ref.startswith("refs/heads/wt/")]
    return own[0] if len(own) == 1 else ""


def _short(ref: str) -> str:
    return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/")
