"""What the host has chosen about worktrees. The defaults choose nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeOptions:
    """How a worktree is made here, beyond what git puts into it.

    `disk_floor_bytes`: with fewer free bytes nothing is started. `include`: copy what
    `.worktreeinclude` names, within two bounds. `submodules`: leave them empty, fill those of the
    repository, or those of its submodules too, over `submodule_protocols` alone.
    """

    disk_floor_bytes: int = 0
    include: bool = False
    include_max_files: int = 1_000
    include_max_bytes: int = 64 * 1024 * 1024
    submodules: Literal["off", "init", "recursive"] = "off"
    submodules_timeout_s: float = 300.0
    submodule_protocols: tuple[str, ...] = ("https", "ssh")
