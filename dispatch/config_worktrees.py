"""The sections of config.toml that concern worktrees: how one is made, and how long it stays.

Owns their defaults and bounds, each with its source. A duration stands in the unit that its name
says.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

_MADE_WITHIN_MAX_S: Final = 14_400  # as the longest limit of an agent
_DAYS_MAX: Final = 3_650
_MIB: Final = 1024 * 1024
_BYTES_MAX: Final = 2**53 - 1  # what every reader of our JSON holds exactly
_PROTOCOL: Final = r"^[a-z][a-z0-9+.-]{0,31}$"

Protocol = Annotated[StrictStr, Field(pattern=_PROTOCOL)]
Days = Annotated[StrictInt, Field(ge=0, le=_DAYS_MAX)]
Bytes = Annotated[StrictInt, Field(ge=0, le=_BYTES_MAX)]


class WorktreeSection(BaseModel):
    """`[worktree]`: the limit for making one worktree in seconds, and what is put into it.

    An include list (`.worktreeinclude`) may take 1 000 files and 64 MiB: settings and certificates,
    not a folder of packages. Submodules are left empty unless the host says otherwise, because
    their addresses are the repository's; `https` and `ssh` are what hosting services offer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_s: Annotated[StrictInt, Field(ge=1, le=_MADE_WITHIN_MAX_S)] = 600
    include: StrictBool = True
    include_max_files: Annotated[StrictInt, Field(ge=1, le=100_000)] = 1_000
    include_max_bytes: Bytes = 64 * _MIB
    submodules: Literal["off", "init", "recursive"] = "off"
    submodules_timeout_s: Annotated[StrictInt, Field(ge=1, le=_MADE_WITHIN_MAX_S)] = 300
    submodule_protocols: tuple[Protocol, ...] = ("https", "ssh")


class WorktreesSection(BaseModel):
    """`[worktrees]`: when worktrees of ended jobs are collected. 0 days, count or bytes: never.

    `max_age_days` is git's own patience with what nothing refers to (`gc.pruneExpire`, 2 weeks),
    `grace_days` the time for which results are kept. 200 trees are looked at within minutes;
    20 GiB is a tenth of a small server's disk. Below 256 MiB a checkout, an agent's caches and
    our own journal can no longer be counted on.

    `spares` is how many repositories have a tree checked out ahead of time, `spare_bytes` what all
    of them may take: four projects are a busy desk, and 2 GiB a tenth of what worktrees may take.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    gc: StrictBool = True
    max_age_days: Days = 14
    max_count: Annotated[StrictInt, Field(ge=0, le=100_000)] = 200
    max_bytes: Bytes = 20 * 1024 * _MIB
    expire_days: Days = 0
    grace_days: Days = 7
    disk_floor_bytes: Bytes = 256 * _MIB
    spares: Annotated[StrictInt, Field(ge=0, le=100)] = 4
    spare_bytes: Bytes = 2 * 1024 * _MIB
