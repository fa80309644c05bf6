"""Git on trees that no agent has touched: questions to a repository, and its worktree metadata.

Commands run in the owner's environment, after the variables that point git elsewhere have left our
own process; GitPython runs them where the process seam cannot without a warden. The owner's own
configuration is honoured, `safe.directory` above all, because the repository is the owner's. No
command here reads an index or a file of a work tree, and hooks and the file monitor are off, so
nothing that a repository configures is run. An agent's worktree is never asked through this module:
see `shadow_git`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from contracts.errors import CouldNotCheck, Unavailable
from runagent._direct import can_run_directly, run_directly
from runagent.environment import owners_git_environment, scrub_own_git_variables
from runagent.process import EndState, ProcessOutcome, ProcessSpec

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
# Metadata takes milliseconds. A hanging disk, or a pipe that somebody put in the place of a HEAD,
# must not hang us.
_COMMAND_TIMEOUT_S: Final = 30.0
_GRACE_S: Final = 2.0  # it removes its lock files when it is asked to end
_OUTPUT_MAX_BYTES: Final = 64 * 1024 * 1024  # as in `shadow_git`: 100,000 long names are 20 MB


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

        Raises Unavailable when git is not installed or does not end within 30 s, CouldNotCheck when
        it says more than 64 MiB.
        """
        scrub_own_git_variables()
        # -C and not a working directory: what may not be entered is then git's own refusal.
        argv = ("git", *_SAFE, "-C", self.directory, *arguments)
        run_git = run_directly if can_run_directly() else _run_by_gitpython
        outcome = run_git(
            ProcessSpec(
                argv=argv,
                cwd=os.sep,
                env=owners_git_environment(),
                timeout_s=_COMMAND_TIMEOUT_S,
                grace_s=_GRACE_S,
                tail_bytes=_OUTPUT_MAX_BYTES,
                is_short=True,
            )
        )
        return self._answer(outcome, arguments[0])

    def _answer(self, outcome: ProcessOutcome, name: str) -> Answer:
        if outcome.state is EndState.NOT_STARTED:
            why, _, remedy = outcome.why.removesuffix(")").rpartition(" (")
            if not why or "not found" in why:
                why, remedy = why or outcome.why, "install git and put it on PATH"
            raise Unavailable(f"git cannot be started here: {why}", remedy=remedy)
        if outcome.state is not EndState.EXITED:
            limit = f"{_COMMAND_TIMEOUT_S:.0f} s"
            raise Unavailable(
                f"git {name} did not end within {limit} in {self.directory}",
                remedy="look for a disk that hangs, or a pipe below .git, and try again",
            )
        if outcome.stdout_total > len(outcome.stdout):
            raise CouldNotCheck(
                f"git {name} printed {outcome.stdout_total} bytes in {self.directory}"
            )
        out, error = os.fsdecode(outcome.stdout), os.fsdecode(outcome.stderr)
        return Answer(outcome.exit_code or 0, out, error)

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


def _run_by_gitpython(spec: ProcessSpec) -> ProcessOutcome:
    """Run `spec` through GitPython, which has a deadline everywhere but on Windows."""
    missing = ProcessOutcome(
        state=EndState.NOT_STARTED, exit_code=None, why="git: not found on PATH"
    )
    try:
        from git import Git
        from git.exc import GitCommandNotFound
    except ImportError:  # GitPython looks for git as it is imported
        return missing
    limit = None if sys.platform == "win32" else spec.timeout_s
    try:
        code, out, error = Git().execute(
            list(spec.argv),
            with_extended_output=True,
            with_exceptions=False,
            stdout_as_string=False,
            strip_newline_in_stdout=False,
            kill_after_timeout=limit,
            env=dict(spec.env),  # added to our own environment, of which it is a copy
        )
    except GitCommandNotFound:
        return missing
    said = _bytes(error)
    is_late = code < 0 and said.startswith(b"Timeout:")
    return ProcessOutcome(
        state=EndState.TIMED_OUT if is_late else EndState.EXITED,
        exit_code=code,
        why="ended after its time" if is_late else "",
        stdout=_bytes(out),
        stderr=said,
        stdout_total=len(out),
        stderr_total=len(said),
    )


def _bytes(value: object) -> bytes:
    if isinstance(value, str):
        return os.fsencode(value)
    return value if isinstance(value, bytes) else b""
