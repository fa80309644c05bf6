"""Three looks at one worktree and what they say together: who changed what, what is left of it.

Owns the comparison. It looks at nothing itself and judges nothing: status and review are decided
elsewhere from these facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from contracts.run_agent import Risk
from runagent.evidence.cross_check import CrossCheck, cross_check, disagreement
from runagent.evidence.ignored_paths import is_tool_cache
from runagent.evidence.snapshot import Snapshot, differing_paths
from runagent.evidence.tree_evidence import TreeState
from runagent.files.manifest import Manifest
from runagent.git.head import Head

_NAMED: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What changed, by whom. Paths are git's own bytes, sorted, without repetition."""

    changed: tuple[bytes, ...]  # at the end, against the start; with what was committed
    agent_changed: tuple[bytes, ...]
    validator_changed: tuple[bytes, ...]
    ignored_changed: tuple[bytes, ...]  # the agent's changes of what git ignores, listed apart
    renames: tuple[tuple[bytes, bytes], ...]  # (from, to); `changed` holds the new path alone
    committed: tuple[bytes, ...]  # base..HEAD
    head_commit: str  # "" when it cannot be read
    ignored_only: bool  # the agent wrote nothing but ignored files
    agent_change_survives: bool  # something of the agent's change still differs from the start
    risks: tuple[Risk, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """The state of the files together with what was committed by then."""

    state: TreeState
    head: Head
    committed: frozenset[bytes]
    problems: tuple[Risk, ...]
    hidden: frozenset[bytes] = frozenset()  # what flags of the worktree's index hide from git


def weigh(start: TreeState, agent: Look, end: Look) -> Evidence:
    """Return what the three looks say together."""
    by_agent, agent_check = _compare(start, agent.state)
    at_end, end_check = _compare(start, end.state)
    by_validator, validator_check = _compare(agent.state, end.state)
    moved_before = _sources(agent.state.snapshot)
    moved_now = _sources(end.state.snapshot)
    agent_changed = (by_agent | agent.committed) - moved_before
    changed = (at_end | set(end.state.snapshot.changed) | end.committed) - moved_now
    snapshots = (start.snapshot, agent.state.snapshot, end.state.snapshot)
    return Evidence(
        changed=tuple(sorted(changed)),
        agent_changed=tuple(sorted(agent_changed)),
        validator_changed=tuple(sorted(by_validator - (moved_now - moved_before))),
        ignored_changed=tuple(sorted(agent_check.ignored)),
        renames=end.state.snapshot.renames,
        committed=tuple(sorted(end.committed)),
        head_commit=end.head.commit,
        ignored_only=not agent_changed and bool(agent_check.ignored),
        agent_change_survives=bool(by_agent & at_end),
        risks=_without_repetition(
            (
                *agent.problems,
                *end.problems,
                *disagreement(agent_check.hidden | end_check.hidden, snapshots),
                *_told_of_flags((agent.hidden & by_agent) | (end.hidden & at_end)),
                *agent_check.risks,
                *end_check.risks,
                *validator_check.risks,
                *_told_of_rewriting(by_agent & at_end, by_validator),
                *_told_of_writing(
                    by_validator - by_agent - _all_sources(end, agent), agent.state.files.manifest
                ),
            )
        ),
    )


def _compare(before: TreeState, now: TreeState) -> tuple[set[bytes], CrossCheck]:
    """Return every path that differs, of a rename both, and what the files say beside git."""
    paths = differing_paths(before.snapshot, now.snapshot)
    if now.snapshot.is_incomplete:  # then git's own status is believed besides
        paths.update(set(now.snapshot.changed) - set(before.snapshot.changed))
    check = cross_check((before.snapshot, before.files), (now.snapshot, now.files), paths)
    return paths | check.added, check


def _all_sources(*looks: Look) -> set[bytes]:
    return {source for look in looks for source in _sources(look.state.snapshot)}


def _told_of_flags(paths: frozenset[bytes]) -> tuple[Risk, ...]:
    if not paths:
        return ()
    told = f"flags in the index hide changes from a plain git status: {_names(sorted(paths))}"
    return (Risk(code="hidden_by_index", message=told),)


def _names(paths: Sequence[bytes]) -> str:
    shown = ", ".join(path.decode("utf-8", "backslashreplace") for path in paths[:_NAMED])
    return shown if len(paths) <= _NAMED else f"{shown} and {len(paths) - _NAMED} more"


def _told_of_writing(paths: set[bytes], before: Manifest) -> tuple[Risk, ...]:
    """A pass may rest on what the validation itself wrote: on a file that stood there before, or on
    one beside those. A folder that it made is where its products go, and no alarm."""
    written = sorted(
        path
        for path in paths
        if path.rpartition(b"/")[0] in before.folders and not is_tool_cache(path)
    )
    if not written:
        return ()
    told = f"the validation changed files that the agent had not: {_names(written)}"
    return (Risk(code="validator_wrote", message=told),)


def _told_of_rewriting(surviving: set[bytes], by_validator: set[bytes]) -> tuple[Risk, ...]:
    """One that formats files and one that puts its own in their place look alike: ask a person."""
    if not surviving or surviving - by_validator:
        return ()
    told = "the validation rewrote every file that the agent changed"
    return (Risk(code="validator_rewrote", message=told),)


def _sources(snapshot: Snapshot) -> set[bytes]:
    return {source for source, _ in snapshot.renames}


def _without_repetition(risks: Iterable[Risk]) -> tuple[Risk, ...]:
    return tuple({(risk.code, risk.message): risk for risk in risks}.values())
