"""The pure rules over worktrees: their states, and which of them go."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch.config_worktrees import WorktreesSection
from worker.trees.retention import Candidate, Choice, choose, still_goes
from worker.trees.states import TreeFacts, TreeState, states_of

DAY = 86_400.0


def tree(job: str = "a", **changes: object) -> Candidate:
    honest = Candidate(
        job=job, age_s=100 * DAY, bytes=10, is_free=True, is_safe=True, is_committed=True
    )
    return dataclasses.replace(honest, **changes)  # type: ignore[arg-type]


def policy(**changes: int) -> WorktreesSection:
    none = {"max_age_days": 0, "max_count": 0, "max_bytes": 0, "disk_floor_bytes": 0}
    return WorktreesSection(**{**none, **changes})


def jobs(choices: tuple[Choice, ...]) -> list[str]:
    return [choice.job for choice in choices]


def test_a_policy_of_zeros_removes_nothing() -> None:
    assert choose([tree()], policy(), free_bytes=0) == ()


def test_safe_trees_go_by_age_and_the_rest_does_not() -> None:
    trees = [
        tree("old"),
        tree("young", age_s=DAY),
        tree("busy", is_free=False),
        tree("work", is_safe=False),
    ]
    assert jobs(choose(trees, policy(max_age_days=14))) == ["old"]


def test_only_the_age_that_the_owner_set_lets_work_go_and_uncommitted_work_needs_force() -> None:
    trees = [
        tree("committed", is_safe=False),
        tree("dirty", is_safe=False, is_committed=False),
        tree("busy", is_safe=False, is_free=False),
        tree("young", is_safe=False, age_s=DAY),
    ]
    assert choose(trees, policy(max_age_days=1, max_count=1, max_bytes=1)) == ()
    assert jobs(choose(trees, policy(expire_days=30))) == ["committed"]
    assert jobs(choose(trees, policy(expire_days=30), force=True)) == ["committed", "dirty"]


def test_the_oldest_safe_ones_go_while_there_are_too_many() -> None:
    trees = [tree(str(age), age_s=age * DAY) for age in (1, 2, 3)]
    trees.append(tree("work", age_s=9 * DAY, is_safe=False))
    assert jobs(choose(trees, policy(max_count=2))) == ["3", "2"]
    assert jobs(choose(trees, policy(max_count=4))) == []
    assert jobs(choose(trees, policy(max_bytes=25))) == ["3", "2"]


def test_a_full_disk_takes_the_oldest_safe_ones_at_once_until_there_is_room() -> None:
    trees = [tree(str(age), age_s=age * DAY, bytes=100) for age in (1, 2, 3)]
    chosen = choose(trees, policy(disk_floor_bytes=150), free_bytes=40)
    assert jobs(chosen) == ["3", "2"]
    assert all(choice.at_once for choice in chosen)
    assert choose(trees, policy(disk_floor_bytes=150), free_bytes=150) == ()
    assert choose(trees, policy(disk_floor_bytes=150), free_bytes=None) == ()


def test_a_full_disk_takes_nothing_from_another_disk() -> None:
    trees = [tree("elsewhere", age_s=9 * DAY, is_on_full_disk=False), tree("here", age_s=DAY)]
    chosen = choose(trees, policy(disk_floor_bytes=150), free_bytes=40)
    assert jobs(chosen) == ["here"]


def test_a_tree_that_changed_since_it_was_chosen_stays() -> None:
    safe, expired = Choice("a", "old"), Choice("a", "expired", is_expired=True)
    assert still_goes(safe, tree(), force=False)
    assert not still_goes(safe, tree(is_free=False), force=True)
    assert not still_goes(safe, tree(is_safe=False), force=True)
    assert still_goes(expired, tree(is_safe=False), force=False)
    assert not still_goes(expired, tree(is_safe=False, is_committed=False), force=False)
    assert still_goes(expired, tree(is_safe=False, is_committed=False), force=True)


_CANDIDATES = st.lists(
    st.builds(
        Candidate,
        job=st.uuids().map(str),
        age_s=st.floats(0, 1_000 * DAY),
        bytes=st.integers(0, 10**9),
        is_free=st.booleans(),
        is_safe=st.booleans(),
        is_committed=st.booleans(),
        is_on_full_disk=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda candidate: candidate.job,
)
_POLICIES = st.builds(
    WorktreesSection,
    max_age_days=st.integers(0, 50),
    max_count=st.integers(0, 5),
    max_bytes=st.integers(0, 10**9),
    expire_days=st.integers(0, 500),
    disk_floor_bytes=st.integers(0, 10**9),
)


@given(_CANDIDATES, _POLICIES, st.none() | st.integers(0, 10**9), st.booleans())
def test_whatever_the_policy_nothing_goes_that_is_bound_or_holds_young_work(
    trees: list[Candidate], rules: WorktreesSection, free: int | None, force: bool
) -> None:
    by_job = {candidate.job: candidate for candidate in trees}
    chosen = choose(trees, rules, free_bytes=free, force=force)
    assert len(set(jobs(chosen))) == len(chosen)
    for choice in chosen:
        candidate = by_job[choice.job]
        assert candidate.is_free
        assert still_goes(choice, candidate, force=force)
        if not candidate.is_safe:
            assert choice.is_expired
            assert candidate.age_s > rules.expire_days * DAY > 0
            assert candidate.is_committed or force
            assert not choice.at_once


# --- states ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("facts", "states"),
    [
        (TreeFacts(is_removed=True, is_missing=True), ["removed"]),
        (TreeFacts(is_missing=True, is_orphaned=True), ["removed_by_owner"]),
        (TreeFacts(is_running=True, is_in_use=True, is_locked=True), ["running"]),
        (TreeFacts(is_in_use=True), ["in_use"]),
        (TreeFacts(is_locked=True, was_looked_at=True), ["locked", "clean"]),
        (TreeFacts(is_orphaned=True), ["orphaned"]),
        (TreeFacts(), ["unknown"]),
        (TreeFacts(was_looked_at=True), ["clean"]),
        (TreeFacts(was_looked_at=True, has_landed=True, is_dirty=True), ["landed", "dirty"]),
        (TreeFacts(was_looked_at=True, is_dirty=True), ["awaiting_review", "dirty"]),
        (TreeFacts(was_looked_at=True, is_unpushed=True), ["awaiting_review", "unpushed"]),
        (
            TreeFacts(was_looked_at=True, is_dirty=True, is_unpushed=True, has_failed=True),
            ["dirty", "unpushed"],
        ),
    ],
)
def test_a_tree_is_in_the_states_that_its_facts_say(facts: TreeFacts, states: list[str]) -> None:
    assert [state.value for state in states_of(facts)] == states


@given(st.builds(TreeFacts, **{fact.name: st.booleans() for fact in dataclasses.fields(TreeFacts)}))
def test_every_tree_is_in_some_state(facts: TreeFacts) -> None:
    assert states_of(facts)
    assert all(isinstance(state, TreeState) for state in states_of(facts))
