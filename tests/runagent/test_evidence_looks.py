"""The three looks: who changed what, what survives, and what happens when a look fails."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import pytest

from contracts.errors import CouldNotCheck
from runagent.evidence.evidence import EvidenceCollector
from runagent.process import (
    EndState,
    ProcessOutcome,
    ProcessSpec,
    RunningProcess,
    Script,
    ScriptedRunner,
    system_runner,
)
from tests.support.repositories import (
    Act,
    collect,
    do_nothing,
    git,
    make_repository,
    prepare,
    write,
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(
        tmp_path / "repo", {"a.txt": "a\n", "b.txt": "b\n", ".gitignore": "ignored/\n"}
    )


def in_turn(*acts: Act) -> Act:
    def act(tree: Path) -> None:
        for each in acts:
            each(tree)

    return act


def test_an_agent_that_did_nothing_changed_nothing(repo: Path) -> None:
    evidence = collect(repo, do_nothing).evidence
    assert evidence.changed == evidence.agent_changed == evidence.validator_changed == ()
    assert not evidence.agent_change_survives
    assert not evidence.ignored_only
    assert evidence.risks == ()


def test_what_the_validator_wrote_is_listed_apart(repo: Path) -> None:
    def validator(tree: Path) -> None:
        for number in range(1_318):
            write(f"cache/{number % 10}/{number}")(tree)

    run = collect(repo, write("fix"), validator)
    control = git(run.tree, "status", "--porcelain", "-uall").splitlines()
    assert len(control) == 1_319, "plain git cannot say whose they are"
    assert run.evidence.agent_changed == (b"fix",)
    assert len(run.evidence.validator_changed) == 1_318
    assert len(run.evidence.changed) == 1_319


def test_a_validator_that_writes_makes_no_change_of_an_idle_agent(repo: Path) -> None:
    evidence = collect(repo, do_nothing, in_turn(write("bin/app"), write("a.txt"))).evidence
    assert evidence.agent_changed == ()
    assert not evidence.agent_change_survives
    assert evidence.validator_changed == (b"a.txt", b"bin/app")
    assert evidence.changed == (b"a.txt", b"bin/app")


def test_a_validator_that_formats_the_agents_file_is_seen_and_the_change_survives(
    repo: Path,
) -> None:
    evidence = collect(repo, write("a.txt", "x=1\n"), write("a.txt", "x = 1\n")).evidence
    assert evidence.agent_changed == evidence.validator_changed == (b"a.txt",)
    assert evidence.agent_change_survives


def test_a_change_that_the_validator_takes_back_does_not_survive(repo: Path) -> None:
    evidence = collect(repo, write("a.txt", "x\n"), write("a.txt", "a\n")).evidence
    assert evidence.agent_changed == (b"a.txt",)
    assert evidence.changed == ()
    assert not evidence.agent_change_survives


def test_a_new_file_that_the_validator_removes_does_not_survive(repo: Path) -> None:
    evidence = collect(repo, write("new"), lambda tree: (tree / "new").unlink()).evidence
    assert evidence.validator_changed == (b"new",)
    assert not evidence.agent_change_survives


def test_an_ignored_file_beside_real_work_is_not_the_work(repo: Path) -> None:
    evidence = collect(repo, in_turn(write("ignored/x"), write("real"))).evidence
    assert evidence.agent_changed == (b"real",)
    assert not evidence.ignored_only


def test_a_validator_that_renames_the_agents_file_leaves_the_new_path(repo: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(50))
    evidence = collect(
        repo, write("one", text), lambda tree: void((tree / "one").rename(tree / "two"))
    ).evidence
    assert evidence.agent_changed == (b"one",)
    assert evidence.changed == (b"two",)


def test_a_collector_without_a_look_after_the_agent_gives_it_every_change(repo: Path) -> None:
    worktree = prepare(repo, repo.parent / "state")
    collector = EvidenceCollector(worktree, runner=system_runner())
    collector.start()
    write("work")(Path(worktree.path))
    evidence = collector.after_validation()
    assert evidence.agent_changed == (b"work",)
    assert evidence.validator_changed == ()


def test_looking_before_the_start_is_a_mistake(repo: Path) -> None:
    collector = EvidenceCollector(prepare(repo, repo.parent / "state"), runner=system_runner())
    with pytest.raises(ValueError, match="start"):
        collector.after_agent()


def test_a_start_that_cannot_be_seen_stops_everything(repo: Path) -> None:
    worktree = prepare(repo, repo.parent / "state")
    shutil.rmtree(worktree.shadow_dir)
    with pytest.raises(CouldNotCheck):
        EvidenceCollector(worktree, runner=system_runner()).start()


def test_a_worktree_that_vanished_or_was_replaced_is_a_risk(repo: Path, tmp_path: Path) -> None:
    def gone(tree: Path) -> None:
        shutil.rmtree(tree)

    def replaced(tree: Path) -> None:
        os.rename(tree, tmp_path / "moved")
        tree.symlink_to(repo)

    for agent in (gone, replaced):
        run = collect(repo, agent)
        assert "evidence_incomplete" in run.codes
        if run.tree.is_symlink():
            run.tree.unlink()


class FailingGit:
    """A runner whose git fails for one command once it is armed; all else is real."""

    def __init__(self, command: str, outcome: ProcessOutcome) -> None:
        self.armed = False
        self._command = command
        self._outcome = outcome

    def start(self, spec: ProcessSpec) -> RunningProcess:
        if not self.armed or self._command not in spec.argv:
            return system_runner().start(spec)
        running = ScriptedRunner({"git": Script()}).start(spec)
        running.wait = lambda: self._outcome  # type: ignore[method-assign]
        return running


FAILED = ProcessOutcome(
    state=EndState.EXITED, exit_code=128, why="", stderr=b"fatal: index file corrupt\n"
)


@pytest.mark.parametrize(
    "command", ["diff-files", "ls-files", "update-index", "write-tree", "status", "diff-tree"]
)
def test_a_git_command_that_fails_is_a_risk_and_never_an_empty_answer(
    repo: Path, command: str
) -> None:
    worktree = prepare(repo, repo.parent / "state")
    runner = FailingGit(command, FAILED)
    collector = EvidenceCollector(worktree, runner=runner)
    collector.start()
    write("work")(Path(worktree.path))
    git(Path(worktree.path), "add", "-A")
    git(Path(worktree.path), "commit", "-q", "-m", "work")
    runner.armed = True
    collector.after_agent()
    evidence = collector.after_validation()
    incomplete = [risk for risk in evidence.risks if risk.code == "evidence_incomplete"]
    assert incomplete
    assert "index file corrupt" in incomplete[0].message
    assert b"work" in evidence.changed, "the other commands still told it"
    assert b"work" in evidence.agent_changed


@pytest.mark.parametrize("state", [EndState.TIMED_OUT, EndState.ABORTED, EndState.NOT_STARTED])
def test_a_git_that_was_ended_or_not_started_is_a_risk(repo: Path, state: EndState) -> None:
    worktree = prepare(repo, repo.parent / "state")
    outcome = ProcessOutcome(state=state, exit_code=None, why="so it was")
    runner = FailingGit("git", outcome)
    collector = EvidenceCollector(worktree, runner=runner)
    collector.start()
    runner.armed = True
    Path(worktree.shadow_dir, "index.lock").touch()
    write("early")(Path(worktree.path))  # of a tree that is as it was git is not asked
    collector.after_agent()
    runner.armed = False
    write("late")(Path(worktree.path))
    evidence = collector.after_validation()
    assert any("so it was" in risk.message for risk in evidence.risks)
    assert b"late" in evidence.changed, "the next look works again"


def test_a_listing_too_long_to_keep_is_a_risk_and_is_not_cut(repo: Path) -> None:
    worktree = prepare(repo, repo.parent / "state")
    outcome = ProcessOutcome(
        state=EndState.EXITED, exit_code=0, why="", stdout=b"tail\0", stdout_total=10**9
    )
    runner = FailingGit("status", outcome)
    collector = EvidenceCollector(worktree, runner=runner)
    collector.start()
    write("early")(Path(worktree.path))  # of a tree that is as it was git is not asked
    runner.armed = True
    evidence = collector.after_validation()
    assert b"tail" not in evidence.changed
    assert any("1000000000 bytes" in risk.message for risk in evidence.risks)


def test_a_repeated_risk_is_told_once(repo: Path) -> None:
    run = collect(repo, lambda tree: void(git(tree, "checkout", "-q", "--detach")))
    assert [risk.code for risk in run.evidence.risks] == ["head_detached"]


def test_the_shadow_can_be_named_apart_from_the_worktree(repo: Path, tmp_path: Path) -> None:
    worktree = prepare(repo, tmp_path / "state")
    elsewhere = dataclasses.replace(worktree, shadow_dir=str(tmp_path / "nowhere"))
    collector = EvidenceCollector(
        elsewhere, shadow_dir=worktree.shadow_dir, runner=system_runner(), deadline_s=60.0
    )
    assert collector.start().changed == ()


def void(_value: object) -> None:
    """Drop a value."""


def test_a_tree_that_nothing_touched_after_the_agent_is_looked_at_once(repo: Path) -> None:
    collector = EvidenceCollector(prepare(repo, repo.parent / "state"), runner=ScriptedRunner({}))
    with pytest.raises(ValueError, match=r"start\(\) comes first"):
        collector.after_validation(is_as_the_agent_left_it=True)
    worktree = prepare(repo, repo.parent / "other")
    seen: dict[bool, tuple[bytes, ...]] = {}
    for is_quiet in (True, False):
        collector = EvidenceCollector(worktree, runner=system_runner())
        collector.start()
        write(f"work-{is_quiet}")(Path(worktree.path))
        collector.after_agent()
        write(f"later-{is_quiet}")(Path(worktree.path))
        evidence = collector.after_validation(is_as_the_agent_left_it=is_quiet)
        assert evidence.agent_change_survives
        seen[is_quiet] = evidence.validator_changed
    assert seen == {True: (), False: (b"later-False",)}
