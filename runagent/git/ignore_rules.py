"""What the repository ignored when the job began, asked without letting git near its checkout.

The rules are the `.gitignore` files of the start's commit, written into a folder of the host's own,
with the owner's exclude files beside them: nobody can add `*` to them later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from contracts.errors import CouldNotCheck, FleetError
from runagent.deadline import Deadline
from runagent.git.shadow_git import ShadowGit
from runagent.git.trusted_git import TrustedGit
from runagent.process import EndState, ProcessRunner

_RULE_FILE: Final = b".gitignore"
_RULE_FILES_MAX: Final = 2_000
_EXCLUDES_MAX_BYTES: Final = 1024 * 1024
_HEAD_MAX_BYTES: Final = 128  # of an answer of `cat-file --batch`: id, kind, size
_PROBE: Final = b"/."  # a name below a folder: git then takes the folder for one


class IgnoreRules:
    """The rules of one repository at one commit."""

    def __init__(self, shadow: ShadowGit, runner: ProcessRunner) -> None:
        """`shadow` is the job's; the folder `rules` is made in its directory."""
        self._shadow = shadow
        self._folder = os.path.join(shadow.directory, "rules")
        self._asking = ShadowGit(shadow.directory, self._folder, runner)
        self.tracked: frozenset[bytes] = frozenset()
        self.folders: frozenset[bytes] = frozenset()  # those that hold something tracked

    def take(
        self,
        commit: str,
        excludes: Sequence[str],
        deadline: Deadline,
        *,
        entries: Mapping[bytes, bytes] | None = None,
    ) -> None:
        """Take the rules of `commit` and of the files `excludes`, those that are there. `entries`
        are the files of `commit` where they are known: path -> mode, a space, object id.

        Raises CouldNotCheck, Unavailable or OSError.
        """
        os.mkdir(self._folder, 0o700)
        with open(os.path.join(self._folder, "excludes"), "wb") as file:
            file.write(b"\n".join(_read(path) for path in excludes))
        if entries is None:
            entries = self._listed(commit, deadline)
        self.tracked = frozenset(entries)
        self.folders = folders_of(self.tracked)
        files = [
            (entry.partition(b" ")[2], path)
            for path, entry in entries.items()
            if path.endswith(_RULE_FILE)
            and path.rpartition(b"/")[2] == _RULE_FILE
            and entry.startswith(b"100")
        ]
        self._write(files[:_RULE_FILES_MAX], deadline)

    def _listed(self, commit: str, deadline: Deadline) -> dict[bytes, bytes]:
        listing, _ = self._shadow.run(("ls-tree", "-r", "-z", commit), deadline)
        found: dict[bytes, bytes] = {}
        for record in listing.split(b"\0"):
            head, _, path = record.partition(b"\t")
            if path:
                mode, _, object_id = head.split(b" ", 2)
                found[path] = mode + b" " + object_id
        return found

    def _write(self, files: Sequence[tuple[bytes, bytes]], deadline: Deadline) -> None:
        """Write the rule files (object id, path) into our folder: one git for all of them."""
        if not files:
            return
        asked = b"".join(object_id + b"\n" for object_id, _ in files)
        answer, _ = self._shadow.run(("cat-file", "--batch"), deadline, stdin=asked)
        place = 0
        for object_id, path in files:
            head, _, _ = answer[place : place + _HEAD_MAX_BYTES].partition(b"\n")
            name, _, rest = head.partition(b" ")
            kind, _, size = rest.partition(b" ")
            if name != object_id or kind != b"blob" or not size.isdigit():
                shown = path.decode("utf-8", "backslashreplace")
                raise CouldNotCheck(f"git cat-file did not print {shown}")
            begin = place + len(head) + 1
            place = begin + int(size) + 1  # a line end stands behind each
            target = os.path.join(os.fsencode(self._folder), path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb") as file:
                file.write(answer[begin : place - 1])

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


def try_rules(
    rules: IgnoreRules,
    commit: str,
    excludes: Sequence[str],
    deadline: Deadline,
    entries: Mapping[bytes, bytes] | None = None,
) -> str:
    """Take the rules; return why that failed, "" when it did not."""
    try:
        rules.take(commit, excludes, deadline, entries=entries)
    except (OSError, FleetError) as error:
        return str(error)
    return ""


def folders_of(paths: Iterable[bytes]) -> frozenset[bytes]:
    """Return every folder that `paths` lie in, the root left out."""
    folders: set[bytes] = set()
    for path in paths:
        folder = path.rpartition(b"/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition(b"/")[0]
    return frozenset(folders)


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
