"""Git's answer held against the files themselves. Where they disagree the files win.

Owns what a disagreement means. Bytes that differ where git sees nothing are a change, with one
exception: a file that is the same but for its line ends, where git stores them in one form. Where
git sees a change and the bytes are the same (its own rules changed) git's answer stands as well.
Judges nothing and looks at nothing.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from contracts.run_agent import Risk
from runagent.evidence.ignored_paths import RULE_FILE, IgnoredPaths, hidden_by_rules, is_tool_cache
from runagent.evidence.snapshot import Snapshot
from runagent.files.file_looks import TreeLook
from runagent.files.manifest import has_other_names, is_file, leads_outside, shape_of
from runagent.files.tree_differences import tell_differences

_NAMED: Final = 5
_SETID: Final = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheck:
    """What the files say beside git. `added` are changes that git did not name, `hidden` those of
    them that it should have seen, `ignored` changes of what it ignores (whole folders as one)."""

    added: frozenset[bytes] = frozenset()
    hidden: frozenset[bytes] = frozenset()
    ignored: frozenset[bytes] = frozenset()
    risks: tuple[Risk, ...] = ()


def cross_check(
    before: tuple[Snapshot, TreeLook],
    now: tuple[Snapshot, TreeLook],
    seen: Collection[bytes],
) -> CrossCheck:
    """Compare what git says differs (`seen`) with what the files say differs between two looks."""
    found = tell_differences(before[1], now[1])
    ignored = IgnoredPaths((*before[0].ignored, *now[0].ignored), now[0].entries)
    hidden: set[bytes] = set()
    passed_over: set[bytes] = set()
    rules_alone: set[bytes] = set()
    for path in found.changed.difference(seen):
        if path not in ignored:
            hidden.add(path)
        else:
            (rules_alone if _is_rule(path, ignored) else passed_over).add(path)
    told_by_git = tuple(folder.rstrip(b"/") + b"/" for folder in now[0].nested)
    hidden.update(path for path in found.git_folders if not path.startswith(told_by_git))
    inside, modules = _in_submodules(hidden, now[0]) if hidden else (set(), set())
    rules = [path for path in found.changed if path.rpartition(b"/")[2] == RULE_FILE]
    return CrossCheck(
        added=frozenset((hidden - inside) | modules | rules_alone),
        hidden=frozenset(hidden - inside),
        ignored=frozenset(map(ignored.shown, passed_over)),
        risks=(
            *_told_of_special(path for path in found.special if path not in ignored),
            *_told_of_links(found.changed, now[1], ignored),
            *_told_of_setid(path for path in found.changed if _runs_as_another(path, now[1])),
            *_told_of_git_directories(before[1], now[1]),
            *_told_of_unread(path for path in found.unread if path not in ignored),
            *_told_of_rules(hidden_by_rules(rules, passed_over)),
        ),
    )


def disagreement(hidden: Iterable[bytes], snapshots: Iterable[Snapshot]) -> tuple[Risk, ...]:
    """Return the risk that git does not see what is `hidden`. A git that could not be asked, or
    failed, told so itself."""
    paths = sorted(hidden)
    if not paths or any(snapshot.is_incomplete for snapshot in snapshots):
        return ()
    told = f"git does not see what changed here, the files' own bytes do: {_names(paths)}"
    return (Risk(code="git_disagrees", message=told),)


def _is_rule(path: bytes, ignored: IgnoredPaths) -> bool:
    """Say whether `path` is a rule file that is ignored by rules of its own alone."""
    is_one = path.rpartition(b"/")[2] == RULE_FILE
    return is_one and not ignored.is_below_one(path) and not is_tool_cache(path)


def _in_submodules(paths: Iterable[bytes], snapshot: Snapshot) -> tuple[set[bytes], set[bytes]]:
    """Return those of `paths` that lie in submodules, and the submodules: git was told not to look
    into one, and one entry of its index stands for all of it."""
    modules = [path for path, entry in snapshot.entries.items() if entry.startswith(b"160000")]
    inside, touched = set(), set()
    for path in paths:
        for module in modules:
            if path.startswith(module + b"/"):
                inside.add(path)
                touched.add(module)
    return inside, touched


def _told_of_special(paths: Iterable[bytes]) -> tuple[Risk, ...]:
    named = sorted(paths)
    if not named:
        return ()
    told = f"pipes, sockets or devices stand in the worktree now: {_names(named)}"
    return (Risk(code="special_file", message=told),)


def _told_of_links(
    paths: Iterable[bytes], look: TreeLook, ignored: IgnoredPaths
) -> tuple[Risk, ...]:
    outside: list[bytes] = []
    shared: list[bytes] = []
    for path in paths:
        item = look.manifest.item(path)
        if item is None or path in ignored:
            continue
        if leads_outside(path, item):
            outside.append(path)
        elif has_other_names(item):
            shared.append(path)
    risks = []
    if outside:
        told = f"links lead out of the worktree: {_names(sorted(outside))}"
        risks.append(Risk(code="link_leads_outside", message=told))
    if shared:
        told = f"files have other names too, perhaps outside the worktree: {_names(sorted(shared))}"
        risks.append(Risk(code="hard_link", message=told))
    return tuple(risks)


def _runs_as_another(path: bytes, look: TreeLook) -> bool:
    item = look.manifest.item(path)
    return item is not None and is_file(item) and bool(shape_of(item)[1] & _SETID)


def _told_of_setid(paths: Iterable[bytes]) -> tuple[Risk, ...]:
    named = sorted(paths)
    if not named:
        return ()
    told = f"files that run as their owner, whoever starts them (setuid, setgid): {_names(named)}"
    return (Risk(code="special_file", message=told),)


def _told_of_git_directories(before: TreeLook, now: TreeLook) -> tuple[Risk, ...]:
    """Folders in which git, started there, takes the folder itself for its own directory and obeys
    its config. The `.git` of a nested repository is told elsewhere."""
    ours, theirs = before.manifest.folders, now.manifest.folders
    found = [
        folder
        for folder, names in theirs.items()
        if folder and names is not ours.get(folder) and _is_git_directory(names)
    ]
    if not found:
        return ()
    told = f"git takes these folders for its own and obeys their config: {_names(sorted(found))}"
    return (Risk(code="nested_repository", message=told),)


def _is_git_directory(names: Collection[bytes]) -> bool:
    """Say whether git would take a folder with these `names` for a git directory (setup.c)."""
    return b"HEAD" in names and (
        b"commondir" in names or (b"objects" in names and b"refs" in names)
    )


def _told_of_unread(paths: Iterable[bytes]) -> tuple[Risk, ...]:
    named = sorted(paths)
    if not named:
        return ()
    told = f"files were touched and not read, and count as changed: {_names(named)}"
    return (Risk(code="evidence_incomplete", message=told),)


def _told_of_rules(paths: list[bytes]) -> tuple[Risk, ...]:
    if not paths:
        return ()
    told = (
        f"rules of what is ignored changed, and these files may be ignored by them: {_names(paths)}"
    )
    return (Risk(code="ignored_by_new_rules", message=told),)


def _names(paths: list[bytes]) -> str:
    shown = ", ".join(path.decode("utf-8", "backslashreplace") for path in paths[:_NAMED])
    return shown if len(paths) <= _NAMED else f"{shown} and {len(paths) - _NAMED} more"
