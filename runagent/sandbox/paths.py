"""What a box without mounts lets a program write and read: real paths, nothing shown elsewhere.

Owns the two lists for Landlock and sandbox-exec. There the agent works in the real git directory,
so objects and refs are open to it; config and hooks are not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from runagent.agents.state import AGENT_STATE
from runagent.sandbox.home_layer import cache_mounts, guard_settings, real_home, state_folder
from runagent.sandbox.masks import Private, refuse_hidden
from runagent.sandbox.mounts import Kind, is_inside
from runagent.sandbox.protocol import Site

_GIT_WRITES: Final = ("objects", "refs", "logs")
_TEMPORARY: Final = ("/tmp", "/var/tmp", "/private/tmp")  # noqa: S108 - tools insist on them


@dataclass(frozen=True, slots=True)
class OpenPaths:
    """`writable` paths, `hidden` ones, and settings in the writable ones that are `guarded`."""

    writable: tuple[str, ...]
    hidden: tuple[str, ...]
    guarded: tuple[str, ...]


def open_paths(
    site: Site, private: Private, caches: tuple[str, ...], scratch: str, *, must_exist: bool
) -> OpenPaths:
    """Return the paths of one job. `scratch` is its own folder for temporary files.

    Raises RepositoryRefused when the repository lies in a hidden place.
    """
    worktree, home = site.worktree, real_home(site.environment)
    hidden = [*private.hidden(home), os.path.realpath(site.runtime_dir)]
    for path in (worktree.repo, worktree.path, worktree.common_dir):
        refuse_hidden(path, hidden, "the repository")
    state = AGENT_STATE[site.agent]
    own = state_folder(home, state, site.environment)
    guarded, _ = guard_settings(own, state)
    stores = cache_mounts(home, caches, site.environment, must_exist=must_exist)
    ours = [worktree.repo, home, *hidden]
    shared = [path for path in _TEMPORARY if not any(is_inside(own, (path,)) for own in ours)]
    wanted = [
        *(worktree.path, worktree.admin_dir, scratch, own),
        *(os.path.join(worktree.common_dir, name) for name in _GIT_WRITES),
        *(store.target for store in stores if store.kind is Kind.WRITABLE),
        *(os.path.join(home, name) for name in state.copied if home),
        *shared,
    ]
    return OpenPaths(
        tuple(dict.fromkeys(path for path in wanted if path and os.path.exists(path))),
        tuple(hidden),
        tuple(mount.target for mount in guarded if mount.kind is Kind.READ_ONLY),
    )


def carve(hidden: tuple[str, ...], root: str = "/") -> list[str]:
    """Return paths that together show everything below `root` but what is `hidden`."""
    if root in hidden:
        return []
    if not any(is_inside(path, (root,)) for path in hidden):
        return [root]
    shown: list[str] = []
    try:
        with os.scandir(root) as entries:
            names = [entry.path for entry in entries if not entry.is_symlink()]
    except OSError:
        return []
    for path in sorted(names):
        shown += carve(hidden, path)
    return shown
