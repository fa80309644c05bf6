"""Three looks at one worktree and what they say together: who changed what, what is left of it.

Owns the comparison. It looks at nothing itself and judges nothing: status and review are decided
elsewhere from these facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contracts.run_agent import Risk
from runagent.head import Head
from runagent.snapshot import Snapshot, differing_paths


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What changed, by whom. Paths are git's own bytes, sorted, without repetition."""

    changed: tuple[bytes, ...]  # at the end, against the start; with what was committed
    agent_changed: tuple[bytes, ...]
    validator_changed: tuple[bytes, ...]
    renames: tuple[tuple[bytes, bytes], ...]  # (from, to); `changed` holds the new path alone
    committed: tuple[bytes, ...]  # base..HEAD
    head_commit: str  # "" when it cannot be read
    ignored_only: bool  # the agent wrote nothing but ignored files
    agent_change_survives: bool  # something of the agent's change still differs from the start
    risks: tuple[Risk, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot of the files together with what was committed by then."""

    snapshot: Snapshot
    head: Head
    committed: frozenset[bytes]
    problems: tuple[Risk, ...]


def weigh(start: Snapshot, agent: Look, end: Look) -> Evidence:
    """Return what the three looks say together."""
    by_agent = _differing(start, agent.snapshot)
    at_end = _differing(start, end.snapshot)
    by_validator = _differing(agent.snapshot, end.snapshot)
    moved_before = _sources(agent.snapshot)
    moved_now = _sources(end.snapshot)
    agent_changed = (by_agent | agent.committed) - moved_before
    changed = (at_end | set(end.snapshot.changed) | end.committed) - moved_now
    new_ignored = set(agent.snapshot.ignored) - set(start.ignored)
    return Evidence(
        changed=tuple(sorted(changed)),
        agent_changed=tuple(sorted(agent_changed)),
        validator_changed=tuple(sorted(by_validator - (moved_now - moved_before))),
        renames=end.snapshot.renames,
        committed=tuple(sorted(end.committed)),
        head_commit=end.head.commit,
        ignored_only=not agent_changed and bool(new_ignored),
        agent_change_survives=bool(by_agent & at_end),
        risks=_without_repetition(
            (*agent.problems, *end.problems, *_told_of_rewriting(by_agent & at_end, by_validator))
        ),
    )


def _told_of_rewriting(surviving: set[bytes], by_validator: set[bytes]) -> tuple[Risk, ...]:
    """One that formats files and one that puts its own in their place look alike: ask a person."""
    if not surviving or surviving - by_validator:
        return ()
    told = "the validation rewrote every file that the agent changed"
    return (Risk(code="validator_rewrote", message=told),)


def _differing(one: Snapshot, other: Snapshot) -> set[bytes]:
    """As differing_paths; when a look was incomplete, git's own status is believed besides."""
    paths = differing_paths(one, other)
    if other.is_incomplete:
        paths.update(set(other.changed) - set(one.changed))
    return paths


def _sources(snapshot: Snapshot) -> set[bytes]:
    return {source for source, _ in snapshot.renames}


def _without_repetition(risks: Iterable[Risk]) -> tuple[Risk, ...]:
    return tuple({(risk.code, risk.message): risk for risk in risks}.values())
