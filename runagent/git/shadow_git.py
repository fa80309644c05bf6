"""Git on a tree that an agent may have touched: a git directory of the host's own.

The worktree's `.git` file, its index, its HEAD, the shared config, hooks and attributes are within
the agent's reach, and a plain `git status` there runs programs they name and believes what they
say. So the host keeps its own git directory for every job: own config with inert keys alone, own
index, HEAD and objects, the repository's objects as an alternate to read from. Each command goes
through the process seam, with an environment built from nothing and a deadline. `git add`, and
`status` without `--ignore-submodules=all`, may not be used here: they start git inside a nested
repository, with that repository's own filters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from contracts.errors import CouldNotCheck, Unavailable
from runagent.deadline import Deadline
from runagent.environment import git_environment
from runagent.git.trusted_git import first_line
from runagent.process import EndState, ProcessOutcome, ProcessRunner, ProcessSpec, run

# A listing of 100,000 long names is some 20 MB. Beyond this we say so instead of cutting.
OUTPUT_MAX_BYTES: Final = 64 * 1024 * 1024
_GRACE_S: Final = 2.0
_COPIED_MAX_BYTES: Final = 4 * 1024 * 1024

_BOOLEAN: Final = frozenset({"true", "false"})
# Settings that say how bytes lie in the tree, and that name no program and no path. Without them
# a checkout with CRLF shows every file as changed. The file mode is not here: it is probed.
_INERT: Final[Mapping[str, frozenset[str]]] = {
    "core.autocrlf": _BOOLEAN | {"input"},
    "core.eol": frozenset({"lf", "crlf", "native"}),
    "core.ignorecase": _BOOLEAN,
    "core.symlinks": _BOOLEAN,
    "core.precomposeunicode": _BOOLEAN,
    "core.longpaths": _BOOLEAN,
    "core.sparsecheckout": _BOOLEAN,
    "core.sparsecheckoutcone": _BOOLEAN,
    "extensions.objectformat": frozenset({"sha1", "sha256"}),
}
INERT_PATTERN: Final = "^(" + "|".join(_INERT).replace(".", r"\.") + ")$"


class ShadowGit:
    """Git over `work_tree` with the host's own git directory `directory`."""

    def __init__(self, directory: str, work_tree: str, runner: ProcessRunner) -> None:
        self.directory = directory
        self.work_tree = work_tree
        self._runner = runner
        self.settings_read: dict[bytes, frozenset[bytes]] = {}  # bytes of a file -> what git listed

    def beside(self, directory: str, work_tree: str) -> ShadowGit:
        """Return another one over `work_tree`, with the same way of starting git."""
        return ShadowGit(directory, work_tree, self._runner)

    @property
    def index_path(self) -> str:
        """Return the file that holds our index."""
        return os.path.join(self.directory, "index")

    def attempt(
        self,
        arguments: tuple[str, ...],
        deadline: Deadline,
        *,
        stdin: bytes | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> ProcessOutcome:
        """Run one git command and return how it ended."""
        empty_file = os.path.join(self.directory, "empty")
        fixed = {
            "core.hooksPath": os.path.join(self.directory, "no-hooks"),
            "core.attributesFile": empty_file,
            "core.excludesFile": empty_file,
            "core.fsmonitor": "false",
            "core.untrackedCache": "false",
            "core.commitGraph": "false",  # a cache among the repository's objects: anyone's word
            "core.quotePath": "true",
            "protocol.allow": "never",
            **(settings or {}),
        }
        outcome = run(
            self._runner,
            ProcessSpec(
                argv=(
                    "git",
                    f"--git-dir={self.directory}",
                    f"--work-tree={self.work_tree}",
                    *(word for key, value in fixed.items() for word in ("-c", f"{key}={value}")),
                    *arguments,
                ),
                cwd=self.directory,
                env={**git_environment(), "LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1"},
                timeout_s=deadline.left_s(),
                stdin=stdin,
                grace_s=_GRACE_S,
                tail_bytes=OUTPUT_MAX_BYTES,
                is_short=True,  # it has nothing configured that it would start
            ),
        )
        if outcome.state is not EndState.EXITED:
            self._drop_index_lock()
        return outcome

    def run(
        self, arguments: tuple[str, ...], deadline: Deadline, *, stdin: bytes | None = None
    ) -> tuple[bytes, str]:
        """Run one git command that must work; return its standard output, whole, and its
        error text (warnings).

        Raises CouldNotCheck when it fails, takes too long or prints more than 64 MiB.
        """
        outcome = self.attempt(arguments, deadline, stdin=stdin)
        self.check(outcome, arguments[0])
        if outcome.stdout_total > len(outcome.stdout):
            raise CouldNotCheck(f"git {arguments[0]} printed {outcome.stdout_total} bytes")
        return outcome.stdout, outcome.stderr.decode("utf-8", "replace")

    @staticmethod
    def check(outcome: ProcessOutcome, name: str) -> None:
        """Raise Unavailable when git `name` was not started, CouldNotCheck when it did not work."""
        if outcome.state is EndState.NOT_STARTED:
            raise Unavailable(f"git could not be started: {outcome.why}", remedy="install git")
        if outcome.state is not EndState.EXITED:
            raise CouldNotCheck(f"git {name} was ended: {outcome.why}")
        if outcome.exit_code != 0:
            told = first_line(outcome.stderr.decode("utf-8", "replace"))
            raise CouldNotCheck(f"git {name} failed with exit code {outcome.exit_code}: {told}")

    def _drop_index_lock(self) -> None:
        """Remove what an ended git left in our own directory; nobody else ever works there."""
        try:
            os.unlink(self.index_path + ".lock")
        except OSError:
            return


def create_shadow(
    shadow: ShadowGit,
    *,
    common_dir: str,
    admin_dir: str,
    commit: str,
    settings: Mapping[str, str],
    keeps_file_mode: bool,
) -> None:
    """Make the git directory of `shadow` for a worktree at `commit`.

    `common_dir` is the repository's shared git directory, `admin_dir` the worktree's own one,
    `settings` the repository's effective settings; `keeps_file_mode` says whether the disk does.
    Must run before an agent does. Raises OSError.
    """
    sparse = os.path.join(admin_dir, "info", "sparse-checkout")
    kept = {key: value for key, value in settings.items() if value in _INERT.get(key, ())}
    if not os.path.isfile(sparse):
        kept["core.sparsecheckout"] = "false"
    for folder in ("", "objects", "objects/info", "info", "refs", "no-hooks"):
        os.mkdir(os.path.join(shadow.directory, folder), 0o700)
    kept["core.filemode"] = "true" if keeps_file_mode else "false"
    _write(shadow, "config", _config_text(kept))
    _write(shadow, "empty", b"")
    _write(shadow, "HEAD", commit.encode() + b"\n")
    objects = os.path.join(common_dir, "objects")
    _write(shadow, "objects/info/alternates", os.fsencode(objects) + b"\n")
    _copy(os.path.join(common_dir, "shallow"), shadow, "shallow")
    _copy(os.path.join(common_dir, "info", "attributes"), shadow, "info/attributes")
    _copy(sparse, shadow, "info/sparse-checkout")


def _config_text(settings: Mapping[str, str]) -> bytes:
    own = {
        "core.repositoryformatversion": "1" if "extensions.objectformat" in settings else "0",
        "core.bare": "false",
        "core.fsync": "none",  # the copy of one run: nothing is lost with the machine
        "core.loosecompression": "1",
        "core.safecrlf": "false",  # a warning at the owner's desk, a failure of our evidence here
        "gc.auto": "0",
        "user.name": "fleet-dispatch",  # of a commit that never leaves this directory
        "user.email": "fleet-dispatch@localhost",
    }
    lines = ["# Written by fleet-dispatch for one job."]
    for key, value in {**settings, **own}.items():
        section, _, name = key.partition(".")
        lines.append(f"[{section}]\n\t{name} = {value}")
    return "\n".join(lines).encode() + b"\n"


def _write(shadow: ShadowGit, name: str, data: bytes) -> None:
    with open(os.path.join(shadow.directory, name), "wb") as file:
        file.write(data)


def _copy(source: str, shadow: ShadowGit, name: str) -> None:
    """Copy a small git file when it is there. What is larger than 4 MiB is no attributes file."""
    if not os.path.isfile(source):
        return
    with open(source, "rb") as file:
        data = file.read(_COPIED_MAX_BYTES + 1)
    if len(data) > _COPIED_MAX_BYTES:
        raise OSError(f"{source} is larger than {_COPIED_MAX_BYTES} bytes")
    _write(shadow, name, data)
