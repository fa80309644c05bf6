"""The tree at one moment, as the host sees it: what differs from the start, and every file's id.

The ids are read from our own index, so that nobody who rewrites the repository's objects can make
two states look alike. A step that fails leaves a risk and never an empty answer.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from contracts.errors import FleetError
from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.evidence.staging import Staged, stage_everything
from runagent.evidence.traps import find_traps, trap_risk, traps_in
from runagent.files.manifest import Manifest
from runagent.git.shadow_git import ShadowGit
from runagent.side_by_side import side_by_side

_GITLINK = b"160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What stood in the tree. Paths are git's own bytes, relative to the worktree, with `/`."""

    changed: tuple[bytes, ...] = ()  # against the start; of a rename the new path
    renames: tuple[tuple[bytes, bytes], ...] = ()  # (from, to)
    ignored: tuple[bytes, ...] = ()  # a folder that is ignored whole ends in `/`
    tree: str = ""  # the id of the tree in the shadow's objects
    problems: tuple[Risk, ...] = ()
    entries: Mapping[bytes, bytes] = field(default_factory=dict)  # path -> mode and object id
    loose: Mapping[bytes, str] = field(default_factory=dict)  # path -> state, for what is no entry
    nested: tuple[bytes, ...] = ()  # folders of repositories inside, with a `/` at the end

    @property
    def is_incomplete(self) -> bool:
        """Say whether something could not be looked at."""
        return any(problem.code == "evidence_incomplete" for problem in self.problems)


def take_snapshot(
    shadow: ShadowGit,
    deadline: Deadline,
    *,
    also: Iterable[bytes],
    before: Snapshot | None,
    manifest: Manifest | None = None,
) -> Snapshot:
    """Return the tree as it stands now. `also` are paths to look at even if they are ignored,
    `before` is the last snapshot, `manifest` a walk of the tree as it stands. Never raises for
    anything that git or the tree does."""
    problems: list[Risk] = []
    loose: dict[bytes, str] = {}
    staged = Staged()
    if manifest is not None and manifest.is_whole and not manifest.unreadable:
        traps = traps_in(manifest)
    else:
        traps = find_traps(os.fsencode(shadow.work_tree))
    if traps:
        kept = before or Snapshot()
        return Snapshot(
            entries=kept.entries, loose=kept.loose, tree=kept.tree, problems=(trap_risk(traps),)
        )
    try:
        staged = stage_everything(shadow, deadline, also)
        loose.update(staged.loose)
        problems.extend(staged.problems)
    except FleetError as error:
        problems.append(_incomplete("changes could not be staged", error))
    told: list[Risk] = []
    (entries, tree), (changed, renames, ignored) = side_by_side(
        lambda: _read_entries(shadow, deadline, before, problems),
        lambda: _read_status(shadow, deadline, told),
    )
    problems.extend(told)
    loose.update(_submodule_states(shadow, entries))
    return Snapshot(
        changed=changed,
        renames=renames,
        ignored=(*ignored, *sorted(staged.ignored)),
        tree=tree,
        problems=tuple(problems),
        entries=entries,
        loose=loose,
        nested=tuple(staged.nested),
    )


def take_first_snapshot(shadow: ShadowGit, deadline: Deadline) -> Snapshot:
    """Return the fresh checkout as it stands. Where git finds it as our index has it, which is
    nearly always, nothing is staged."""
    problems: list[Risk] = []
    told: list[Risk] = []
    (entries, tree), (changed, renames, ignored) = side_by_side(
        lambda: _read_entries(shadow, deadline, None, problems),
        lambda: _read_status(shadow, deadline, told),
    )
    if changed or told:
        return take_snapshot(shadow, deadline, also=(), before=None)
    return Snapshot(
        ignored=ignored,
        renames=renames,
        tree=tree,
        problems=tuple(problems),
        entries=entries,
        loose=_submodule_states(shadow, entries),
    )


def differing_paths(one: Snapshot, other: Snapshot) -> set[bytes]:
    """Return the paths that differ between two snapshots; of a rename both paths."""
    paths = {path for path, state in other.loose.items() if one.loose.get(path) != state}
    paths.update(path for path in one.loose if path not in other.loose)
    if one.entries is not other.entries:
        paths.update(path for path, _ in one.entries.items() ^ other.entries.items())
    return paths


def _incomplete(what: str, error: FleetError) -> Risk:
    return Risk(code="evidence_incomplete", message=f"{what}: {error.message}")


def _read_entries(
    shadow: ShadowGit, deadline: Deadline, before: Snapshot | None, problems: list[Risk]
) -> tuple[Mapping[bytes, bytes], str]:
    try:
        tree = shadow.run(("write-tree",), deadline)[0].decode("ascii", "replace").strip()
        if before is not None and before.tree == tree:
            return before.entries, tree
        listing, _ = shadow.run(("ls-files", "--stage", "-z"), deadline)
    except FleetError as error:
        problems.append(_incomplete("files could not be listed", error))
        return (before.entries if before else {}), ""
    records = (record.partition(b"\t") for record in listing.split(b"\0") if record)
    return {path: head.removesuffix(b" 0") for head, _, path in records}, tree


def _read_status(
    shadow: ShadowGit, deadline: Deadline, problems: list[Risk]
) -> tuple[tuple[bytes, ...], tuple[tuple[bytes, bytes], ...], tuple[bytes, ...]]:
    """Return changed paths, renames and ignored paths as git's status has them."""
    try:
        listing, _ = shadow.run(
            (
                *("status", "--porcelain=v1", "-z", "--untracked-files=all", "--renames"),
                *("--ignored=matching", "--ignore-submodules=all"),
            ),
            deadline,
        )
    except FleetError as error:
        problems.append(_incomplete("changes could not be listed", error))
        return (), (), ()
    return parse_status(listing)


def parse_status(
    listing: bytes,
) -> tuple[tuple[bytes, ...], tuple[tuple[bytes, bytes], ...], tuple[bytes, ...]]:
    """Return (changed, renames, ignored) of `git status --porcelain=v1 -z` output. Nothing of a
    path is stripped or unquoted: with -z the bytes are the name."""
    changed: set[bytes] = set()
    renames: list[tuple[bytes, bytes]] = []
    ignored: list[bytes] = []
    records = iter(listing.split(b"\0"))
    for record in records:
        letters, path = record[:2], record[3:]
        if not path:
            continue
        if letters == b"!!":
            ignored.append(path)
            continue
        changed.add(path)
        if b"R" in letters:
            renames.append((next(records, b""), path))
        elif b"C" in letters:
            next(records, b"")
    return tuple(sorted(changed)), tuple(sorted(renames)), tuple(sorted(ignored))


def parse_name_status(listing: bytes) -> set[bytes]:
    """Return the paths of `git diff-tree -z --name-status` output; of a rename the new path."""
    paths: set[bytes] = set()
    fields = iter(listing.split(b"\0"))
    for letter in fields:
        path = next(fields, b"")
        if letter[:1] in (b"R", b"C"):
            path = next(fields, b"")
        if path:
            paths.add(path)
    return paths


def _submodule_states(shadow: ShadowGit, entries: Mapping[bytes, bytes]) -> dict[bytes, str]:
    """Return, for each submodule, whether its folder is there and filled. Git would look into it
    by starting git there; its files are the business of another repository."""
    root = os.fsencode(shadow.work_tree)
    states: dict[bytes, str] = {}
    for path, entry in entries.items():
        if entry.startswith(_GITLINK):
            states[path] = _folder_state(os.path.join(root, path))
    return states


def _folder_state(folder: bytes) -> str:
    if os.path.islink(folder) or not os.path.isdir(folder):
        return "replaced"
    try:
        return "filled" if os.listdir(folder) else "empty"
    except OSError:
        return "unreadable"
