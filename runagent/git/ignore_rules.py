"""What the repository ignored when the job began, asked without letting git near its checkout.

The rules are the `.gitignore` files of the start's commit, written into a folder of the host's own,
with the owner's exclude files beside them: nobody can add `*` to them later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from contracts.errors import FleetError
from runagent.deadline import Deadline
from runagent.git.shadow_git import ShadowGit
from runagent.git.trusted_git import TrustedGit
from runagent.process import EndState, ProcessRunner

_RULE_FILE: Final = b".gitignore"
_RULE_FILES_MAX: Final = 2_000
_EXCLUDES_MAX_BYTES: Final = 1024 * 1024
_PROBE: Final = b"/."  # a name below a folder: git then takes the folder for one


class IgnoreRules:
    """The rules of one repository at one commit."""

    def __init__(self, shadow: ShadowGit, runner: ProcessRunner) -> None:
        """`shadow` is the job's; the folder `rules` is made in its directory."""
        self._shadow = shadow
        self._folder = os.path.join(shadow.directory, "rules")
        self._asking = ShadowGit(shadow.directory, self._folder, runner)
        self.tracked: frozenset[bytes] = frozenset()

    def take(self, commit: str, excludes: Sequence[str], deadline: Deadline) -> None:
        """Take the rules of `commit` and of the files `excludes`, those that are there.

        Raises CouldNotCheck, Unavailable or OSError.
        """
        os.mkdir(self._folder, 0o700)
        with open(os.path.join(self._folder, "excludes"), "wb") as file:
            file.write(b"\n".join(_read(path) for path in excludes))
        listing, _ = self._shadow.run(("ls-tree", "-r", "-z", commit), deadline)
        entries = [record.partition(b"\t") for record in listing.split(b"\0") if record]
        self.tracked = frozenset(path for _, _, path in entries)
        files = [
            (head.split(b" ")[2], path)
            for head, _, path in entries
            if path.rpartition(b"/")[2] == _RULE_FILE and head.startswith(b"100")
        ]
        for name, path in files[:_RULE_FILES_MAX]:
            blob, _ = self._shadow.run(("cat-file", "blob", name.decode("ascii")), deadline)
            place = os.path.join(os.fsencode(self._folder), path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as file:
                file.write(blob)

    def ignored(
        self, files: Iterable[bytes], folders: Iterable[bytes], deadline: Deadline
    ) -> frozenset[bytes]:
        """Return those of `files` and `folders` (relative to the repository) that are ignored.

        Raises CouldNotCheck or Unavailable.
        """
        asked = {**{path: path for path in files}, **{path + _PROBE: path for path in folders}}
        if not asked:
            return frozenset()
        outcome = self._asking.attempt(
            ("check-ignore", "--no-index", "-z", "--stdin"),
            deadline,
            stdin=b"\0".join(asked) + b"\0",
            settings={"core.excludesFile": os.path.join(self._folder, "excludes")},
        )
        if outcome.state is EndState.EXITED and outcome.exit_code == 1:  # none of them
            return frozenset()
        self._asking.check(outcome, "check-ignore")
        return frozenset(asked[path] for path in outcome.stdout.split(b"\0") if path in asked)


def try_rules(rules: IgnoreRules, commit: str, excludes: Sequence[str], deadline: Deadline) -> str:
    """Take the rules; return why that failed, "" when it did not."""
    try:
        rules.take(commit, excludes, deadline)
    except (OSError, FleetError) as error:
        return str(error)
    return ""


def owner_excludes(repo: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ignore file of the owner of `repo`, by git's own rules. Before an agent runs.

    Raises Unavailable when git is not there or hangs.
    """
    named = TrustedGit(repo).ask("config", "--type=path", "--get", "core.excludesFile")
    if named.ok and named.line:
        return (named.line,)
    home = environment.get("HOME", "")
    folder = environment.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
    return (os.path.join(folder, "git", "ignore"),) if folder else ()


def _read(path: str) -> bytes:
    try:
        if not os.path.isfile(path):
            return b""
        with open(path, "rb") as file:
            return file.read(_EXCLUDES_MAX_BYTES)
    except OSError:
        return b""
