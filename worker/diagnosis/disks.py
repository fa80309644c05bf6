"""Room and rights on the disks: repository roots, the state folder, and its reserve."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import FleetError
from runagent.disk_floor import free_bytes
from worker.diagnosis.finding import Finding, Machine, fails, holds
from worker.reserve import RESERVE_BYTES, Reserve
from worker.settings import load_policy

_MIB = 1024 * 1024


def check_roots(machine: Machine) -> Iterator[Finding]:
    """Look at each folder under which repositories may be used: worktrees are made beside them."""
    if not machine.is_host:
        return
    try:
        policy = load_policy(machine.host)
    except FleetError:
        return  # told by the check of the policy
    roots = {root for rights in policy.senders.values() for root in rights.repo_roots}
    for root in sorted(roots):
        yield _root(Path(root), machine)


def check_state_folder(machine: Machine) -> Iterator[Finding]:
    """Look at the disk of the state folder, and at the reserve there."""
    folder = machine.host.state_dir
    yield _volume("state folder", folder, machine.host.worktree.disk_floor_bytes)
    if not machine.is_host:
        return
    reserve = Reserve(folder)
    room = free_bytes(str(folder))
    if reserve.is_held:
        yield holds("reserve", f"{RESERVE_BYTES // _MIB} MiB are kept for a full disk")
    elif room is not None and room < RESERVE_BYTES:
        what = f"its {RESERVE_BYTES // _MIB} MiB are not there and there is no room for them"
        yield fails("reserve", what, f"free space on the disk of {folder}")
    else:
        yield holds("reserve", "is taken when a listener starts")


def volume_of(path: Path) -> Path:
    """Return where the file system of `path` is mounted."""
    here = path.resolve()
    while here.parent != here and here.parent.stat().st_dev == here.stat().st_dev:
        here = here.parent
    return here


def _root(root: Path, machine: Machine) -> Finding:
    name = f"repository root {root}"
    if not os.path.isdir(root):  # false, too, for what a closed folder hides
        remedy = "make the folder, or take it out of repo_roots in policy.toml"
        return fails(name, "is not there", remedy)
    if not os.access(root, os.W_OK | os.X_OK):
        return fails(name, "cannot be written", f"give this user write access to {root}")
    return _volume(name, root, machine.host.worktree.disk_floor_bytes)


def _volume(name: str, folder: Path, floor_bytes: int) -> Finding:
    free = free_bytes(str(folder))
    if free is None:
        return fails(name, f"the disk of {folder} does not answer", "check that disk")
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    what = f"{free // _MIB} MiB free on the volume {volume_of(there)}"
    if free < floor_bytes:
        what = f"{what}, below the floor of {floor_bytes // _MIB} MiB: no job starts"
        return fails(name, what, "make room, or lower disk_floor_bytes under [worktrees]")
    return holds(name, what)
