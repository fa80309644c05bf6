"""Git on trees that no agent has touched: questions to a repository, and its worktree metadata.

GitPython runs the commands, after the variables that point git elsewhere have left our own
process (it copies the environment into every child). The owner's own configuration is honoured,
`safe.directory` above all, because the repository is the owner's. No command here reads an index
or a file of a work tree, and hooks and the file monitor are off, so nothing that a repository
configures is run. An agent's worktree is never asked through this module: see `shadow_git`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contracts.errors import CouldNotCheck, Unavailable
from runagent.environment import scrub_own_git_variables

_SAFE: Final = (
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
)
# Asking a promisor for objects would talk to the network under a lock (git 2.44 and later listen).
_ENVIRONMENT: Final = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
}
# Metadata takes milliseconds. A hanging disk, or a pipe that somebody put in the place of a HEAD,
# must not hang us.
_COMMAND_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What one git command said: its exit code, its standard output, its error text."""

    code: int
    out: str
    error: str

    @property
    def ok(self) -> bool:
        """Say whether git ended with 0."""
        return self.code == 0

    @property
    def line(self) -> str:
        """Return the output without its last line ends."""
        return self.out.rstrip("\n")


class TrustedGit:
    """Git as the owner of `directory` would run it there, hooks off."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def ask(self, *arguments: str) -> Answer:
        """Run one git command and return what it said, whatever its exit code.

        Raises Unavailable when git is not installed or does not end within 30 s.
        """
        scrub_own_git_variables()
        try:
            from git import Git
            from git.exc import GitCommandNotFound
        except ImportError as error:  # GitPython looks for git as it is imported
            raise _git_is_missing() from error
        # -C and not GitPython's working directory: that one falls back to ours when it is denied.
        argv = ["git", *_SAFE, "-C", self.directory, *arguments]
        limit = None if sys.platform == "win32" else _COMMAND_TIMEOUT_S
        try:
            code, out, error_text = Git().execute(
                argv,
                with_extended_output=True,
                with_exceptions=False,
                stdout_as_string=False,
                strip_newline_in_stdout=False,
                kill_after_timeout=limit,
                env=_ENVIRONMENT,
            )
        except GitCommandNotFound as error:
            raise _git_is_missing() from error
        answer = Answer(code, _text(out), _text(error_text))
        if code < 0 and answer.error.startswith("Timeout:"):
            raise Unavailable(
                f"git {arguments[0]} did not end within {limit:.0f} s in {self.directory}",
                remedy="look for a disk that hangs, or a pipe below .git, and try again",
            )
        return answer

    def tell(self, *arguments: str) -> str:
        """Run one git command that must work and return its output without the last line end.

        Raises CouldNotCheck when it does not.
        """
        answer = self.ask(*arguments)
        if not answer.ok:
            raise CouldNotCheck(
                f"git {arguments[0]} failed in {self.directory}: {first_line(answer.error)}",
                remedy="run the same command there by hand",
            )
        return answer.line

    def object_id(self, ref: str) -> str:
        """Return the object id of the full ref name `ref`, "" when there is no such ref.

        Raises CouldNotCheck when the ref is there and cannot be read.
        """
        answer = self.ask("show-ref", "--verify", "--hash", "--", ref)
        if answer.ok:
            return answer.line
        if "not a valid ref" in answer.error:
            return ""
        raise CouldNotCheck(
            f"{ref} cannot be read in {self.directory}: {first_line(answer.error)}",
            remedy="run git fsck there",
        )

    def commit_of(self, object_id: str) -> str:
        """Return the commit that the object is or that the tag points to, "" when there is none."""
        answer = self.ask("rev-parse", "--verify", "--quiet", f"{object_id}^{{commit}}")
        return answer.line if answer.ok else ""

    def settings(self, pattern: str) -> dict[str, str]:
        """Return the effective settings whose lower-case keys match the regular expression."""
        answer = self.ask("config", "--null", "--get-regexp", pattern)
        pairs: dict[str, str] = {}
        for record in answer.out.split("\0"):
            key, has_value, value = record.partition("\n")
            if key:
                pairs[key.lower()] = value if has_value else "true"
        return pairs

    def worktrees(self) -> list[dict[str, str]]:
        """Return git's own list of worktrees, the main one first; keys as in its porcelain."""
        blocks = self.tell("worktree", "list", "--porcelain").split("\n\n")
        return [
            {key: value for key, _, value in (line.partition(" ") for line in block.splitlines())}
            for block in blocks
            if block.strip()
        ]


def first_line(text: str) -> str:
    """Return the first line of git's error text that says something, at most 300 characters."""
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (told or list(lines) or ["it said nothing"])[0][:300]


def _git_is_missing() -> Unavailable:
    return Unavailable("git is not installed here", remedy="install git and put it on PATH")


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return os.fsdecode(value)
    return value if isinstance(value, str) else ""
