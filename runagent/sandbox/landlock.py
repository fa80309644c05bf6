"""Landlock as a sandbox: no mounts and no namespaces, the kernel refuses writes off a list.

For hosts without bubblewrap. It hides our keys and keeps writes to their places. It does not hide
sockets that have a path or other processes, and since the agent works in the real git directory, it
cannot protect that or the `.git` pointer: all of it stands in what it does not enforce.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from contracts.errors import CouldNotCheck
from contracts.run_agent import Risk
from contracts.sandbox import Capability, SandboxMode
from runagent._walls import Walls
from runagent.process import ProcessRunner, ProcessSpec, RunningProcess
from runagent.sandbox.masks import Private
from runagent.sandbox.paths import carve, open_paths
from runagent.sandbox.protocol import Box, GitPlace, Site, not_renewed
from runagent.trees.tree_removal import remove_child

SCRATCH: Final = "scratch"
Around = Callable[[ProcessRunner], ProcessRunner]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landlock:
    """See Sandbox."""

    private: Private
    caches: tuple[str, ...]
    caches_are_default: bool = True
    enforces: frozenset[Capability] = frozenset()
    mode: SandboxMode = SandboxMode.LANDLOCK

    def enclose(self, site: Site) -> Box:
        """See Sandbox.enclose."""
        scratch = make_scratch(site)
        paths = open_paths(
            site, self.private, self.caches, scratch, must_exist=self.caches_are_default
        )
        walls = Walls(writable=paths.writable, readable=(*carve(paths.hidden), scratch))
        return ScratchBox(site, lambda runner: _LandlockedRunner(runner, walls, scratch))


class ScratchBox:
    """A box in which git is the real one: nothing is to be brought home. It owns `scratch`."""

    def __init__(self, site: Site, around: Around) -> None:
        self.git = GitPlace(site.worktree.admin_dir, site.worktree.common_dir)
        self.around = around
        self._runtime_dir = site.runtime_dir

    def renew(self) -> None:
        """See Box.renew."""
        try:
            remove_child(self._runtime_dir, SCRATCH)
            os.mkdir(os.path.join(self._runtime_dir, SCRATCH), 0o700)
        except OSError as error:
            raise not_renewed(error) from error

    def bring_home(self) -> tuple[Risk, ...]:
        """See Box.bring_home. It never left home."""
        return ()

    def close(self) -> None:
        """See Box.close."""
        with contextlib.suppress(OSError):
            remove_child(self._runtime_dir, SCRATCH)


class _LandlockedRunner:
    """Starts programs behind walls."""

    def __init__(self, runner: ProcessRunner, walls: Walls, scratch: str) -> None:
        self._runner = runner
        self._walls = walls
        self._scratch = scratch

    def start(self, spec: ProcessSpec) -> RunningProcess:
        """See ProcessRunner.start."""
        env = with_scratch(spec.env, self._scratch)
        return self._runner.start(dataclasses.replace(spec, walls=self._walls, env=env))


def make_scratch(site: Site) -> str:
    """Make the folder for temporary files of a job. Raises CouldNotCheck."""
    scratch = os.path.join(os.path.realpath(site.runtime_dir), SCRATCH)
    try:
        os.mkdir(scratch, 0o700)
    except OSError as error:
        raise CouldNotCheck(f"the sandbox could not be built: {error.strerror}") from error
    return scratch


def with_scratch(env: Mapping[str, str], scratch: str) -> dict[str, str]:
    """Return `env` with its temporary files in `scratch`."""
    return {**env, "TMPDIR": scratch}
