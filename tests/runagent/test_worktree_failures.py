"""A worktree that cannot be made: a typed refusal with the remedy, and nothing left of the try."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contracts.errors import CouldNotCheck, FleetError, RepositoryRefused, Unavailable
from runagent.deadline import Deadline
from runagent.git import trusted_git
from runagent.git.trusted_git import Answer, TrustedGit
from runagent.process import (
    EndState,
    ProcessOutcome,
    ProcessSpec,
    RunningProcess,
    Script,
    ScriptedRunner,
    system_runner,
)
from runagent.trees import worktree_metadata
from runagent.trees.tree_removal import remove_child
from runagent.trees.worktree import remove_worktree
from tests.support.repositories import (
    attempt_git,
    git,
    make_repository,
    prepare,
    state_of_checkout,
)
from tests.support.unprivileged import give_away, open_folder, run_unprivileged

JOB = "0123456789abcdef0123"


def refused_try(
    repo: Path,
    kind: type[FleetError] = RepositoryRefused,
    **wanted: object,
) -> FleetError:
    """Try to make a worktree, expect it to fail, and check that nothing is left of it."""
    beside = set(repo.parent.iterdir())
    before = state_of_checkout(repo)
    with pytest.raises(kind) as caught:
        prepare(repo, repo.parent / "state", job_id=JOB, **wanted)  # type: ignore[arg-type]
    after = state_of_checkout(repo)
    assert set(after) - set(before) <= {".git/logs/refs/heads/wt"}
    assert {name: after[name] for name in before} == before
    assert set(repo.parent.iterdir()) - beside <= {repo.parent / "state"}
    assert not list((repo.parent / "state").iterdir())
    return caught.value


def code_of(error: FleetError) -> str:
    assert isinstance(error, RepositoryRefused)
    assert error.remedy
    return error.code


@pytest.mark.parametrize("taken", ["wt", f"wt/{JOB}"])
def test_a_branch_in_the_place_of_a_folder_of_refs_is_refused_by_name(
    tmp_path: Path, taken: str
) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "branch", taken)
    control = attempt_git(repo, "worktree", "add", "-b", f"wt/{JOB}/T-1", str(tmp_path / "x"))
    assert control.returncode != 0, "plain git fails as well"
    error = refused_try(repo)
    assert code_of(error) == "branch_conflict"
    assert taken in str(error)


def test_a_branch_below_the_wanted_one_is_refused(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "branch", f"wt/{JOB}/T-1/more")
    assert code_of(refused_try(repo)) == "branch_conflict"


def test_our_branch_checked_out_elsewhere_is_refused_naming_the_holder(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", "-b", f"wt/{JOB}/T-1", str(tmp_path / "holder"))
    error = refused_try(repo)
    assert code_of(error) == "branch_in_use"
    assert str(tmp_path / "holder") in str(error)
    assert git(repo, "branch", "--list", f"wt/{JOB}/T-1"), "a branch that is not ours stays"


def test_a_folder_in_the_place_of_the_worktree_is_refused_and_kept(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    theirs = tmp_path / "repo-agents" / JOB
    theirs.mkdir(parents=True)
    (theirs / "work").write_text("somebody's")
    assert code_of(refused_try(repo)) == "worktree_exists"
    assert (theirs / "work").read_text() == "somebody's"


def test_a_link_in_the_place_of_the_agents_folder_is_refused(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "repo-agents").symlink_to(tmp_path / "elsewhere")
    assert code_of(refused_try(repo)) == "folder_is_link"
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_repository_without_commits_leaves_nothing_behind(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "master", "repo")
    assert code_of(refused_try(tmp_path / "repo")) == "no_commits"


def test_an_unknown_base_leaves_nothing_behind(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    assert code_of(refused_try(repo, branch="--orphan")) == "base_unknown"


UNPRIVILEGED = """
import sys
from contracts.errors import RepositoryRefused
from runagent.process import ScriptedRunner
from runagent.trees.worktree import prepare_worktree
repo, state = sys.argv[1:]
try:
    prepare_worktree(repo, job_id="0123456789abcdef0123", ticket="T-1", branch=None,
                     shadow_dir=state + "/s", runner=ScriptedRunner({}), deadline_s=30)
except RepositoryRefused as error:
    print(error.code, bool(error.remedy))
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.parametrize(
    ("closed", "code"),
    [("parent", "parent_unwritable"), ("repo/.git", "repo_unwritable"), (None, None)],
)
def test_a_place_without_write_permission_is_refused_with_the_remedy(
    closed: str | None, code: str | None
) -> None:
    with open_folder() as folder:
        repo = make_repository(folder / "parent" / "repo")
        (folder / "state").mkdir()
        give_away(folder)
        if closed is not None:
            place = repo / ".git" if closed == "repo/.git" else folder / closed
            place.chmod(0o555)
        said = run_unprivileged(UNPRIVILEGED, str(repo), str(folder / "state"), home=folder)
        # The control gets as far as the checkout, whose program is not there.
        assert said == (f"{code} True\n" if code else "Unavailable\n")
        assert not (folder / "parent" / "repo-agents").exists()


class CheckoutEnds:
    """A runner whose checkout ends in a chosen way; anything else is real."""

    def __init__(self, act: Callable[[ProcessSpec], ProcessOutcome]) -> None:
        self._act = act

    def start(self, spec: ProcessSpec) -> RunningProcess:
        if "read-tree" not in spec.argv:
            return system_runner().start(spec)
        script = Script()
        running = ScriptedRunner({"git": script}).start(spec)
        outcome = self._act(spec)
        running.wait = lambda: outcome  # type: ignore[method-assign]
        return running


def ended(stderr: bytes, state: EndState = EndState.EXITED) -> CheckoutEnds:
    def act(spec: ProcessSpec) -> ProcessOutcome:
        tree = next(word for word in spec.argv if word.startswith("--work-tree=")).partition("=")[2]
        Path(tree, "half").write_text("half a checkout")
        code = 128 if state is EndState.EXITED else None
        return ProcessOutcome(state=state, exit_code=code, why=state.value, stderr=stderr)

    return CheckoutEnds(act)


def test_a_full_disk_in_the_middle_of_the_checkout_leaves_nothing(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    runner = ended(b"error: unable to write file a: No space left on device\nfatal: x\n")
    assert code_of(refused_try(repo, runner=runner)) == "no_space"


def test_missing_objects_in_the_middle_of_the_checkout_leave_nothing(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    blob = git(repo, "rev-parse", "HEAD:readme.txt")
    (repo / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    assert code_of(refused_try(repo)) == "objects_missing"


def test_a_checkout_beyond_its_deadline_leaves_nothing(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    error = refused_try(repo, Unavailable, runner=ended(b"", EndState.TIMED_OUT))
    assert "60 s" in str(error)


def test_a_checkout_that_was_aborted_leaves_nothing(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    refused_try(repo, Unavailable, runner=ended(b"", EndState.ABORTED))


def test_a_checkout_that_fails_for_another_reason_leaves_nothing(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    error = refused_try(repo, CouldNotCheck, runner=ended(b"fatal: the moon is wrong\n"))
    assert "the moon is wrong" in str(error)


def test_an_interruption_leaves_nothing_and_is_raised_again(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")

    def interrupted(_spec: ProcessSpec) -> ProcessOutcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(repo, tmp_path / "state", runner=CheckoutEnds(interrupted))
    assert not (tmp_path / "repo-agents").exists()
    assert git(repo, "worktree", "list").count("\n") == 0
    assert git(repo, "branch", "--list", "wt/*") == ""


def test_a_shadow_folder_that_exists_is_never_reused(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (tmp_path / "state" / JOB).mkdir(parents=True)
    (tmp_path / "state" / JOB / "index").write_text("another run's")
    with pytest.raises(RepositoryRefused):
        prepare(repo, tmp_path / "state", job_id=JOB)
    assert (tmp_path / "state" / JOB / "index").exists()
    assert not (tmp_path / "repo-agents").exists()


def test_other_worktrees_in_the_agents_folder_survive_a_failure(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    other = prepare(repo, tmp_path / "state")
    with pytest.raises(CouldNotCheck):
        prepare(repo, tmp_path / "state", runner=ended(b"fatal: no\n"))
    assert (Path(other.path) / "readme.txt").exists()
    assert [path.name for path in (tmp_path / "repo-agents").iterdir()] == [other.job_id]
    assert git(Path(other.path), "status", "--porcelain") == ""


def test_a_short_lock_of_git_is_waited_for(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    folder = repo / ".git" / "refs" / "heads" / "wt" / JOB
    folder.mkdir(parents=True)
    lock = folder / "T-1.lock"
    lock.touch()
    threading.Timer(0.5, lock.unlink).start()
    assert prepare(repo, tmp_path / "state", job_id=JOB).branch == f"wt/{JOB}/T-1"


def test_a_folder_of_git_that_was_pruned_as_it_was_made_is_made_again(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    worktrees = repo / ".git" / "worktrees"
    worktrees.symlink_to("nowhere")  # git cannot make its folder there, as after a prune
    control = attempt_git(repo, "worktree", "add", "-b", "control", str(tmp_path / "control"))
    assert b"No such file or directory" in control.stderr
    threading.Timer(0.5, worktrees.unlink).start()
    made = prepare(repo, tmp_path / "state", job_id=JOB)
    assert made.branch == f"wt/{JOB}/T-1"
    assert git(repo, "worktree", "list").count(f"[wt/{JOB}/T-1] locked") == 1


def test_a_stale_lock_of_git_is_named_after_a_bounded_wait_and_never_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worktree_metadata, "PATIENCE_S", 0.4)
    repo = make_repository(tmp_path / "repo")
    folder = repo / ".git" / "refs" / "heads" / "wt" / JOB
    folder.mkdir(parents=True)
    lock = folder / "T-1.lock"
    lock.touch()
    began = time.monotonic()
    with pytest.raises(Unavailable) as caught:
        prepare(repo, tmp_path / "state", job_id=JOB)
    assert time.monotonic() - began < 10
    assert "T-1.lock" in str(caught.value)
    assert lock.exists(), "whoever holds it may be writing"
    assert not (tmp_path / "repo-agents").exists()
    assert git(repo, "worktree", "list").count("\n") == 0


def test_a_stale_index_lock_of_the_main_checkout_is_no_obstacle(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (repo / ".git" / "index.lock").touch()
    (repo / ".git" / "packed-refs.lock").touch()
    control = attempt_git(repo, "add", "-A")
    assert control.returncode != 0, "plain git is stuck"
    worktree = prepare(repo, tmp_path / "state")
    assert os.path.exists(os.path.join(worktree.path, "readme.txt"))


def test_a_pipe_in_the_place_of_another_worktrees_head_cannot_hang_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", str(tmp_path / "other"))
    head = repo / ".git" / "worktrees" / "other" / "HEAD"
    head.unlink()
    os.mkfifo(head)
    monkeypatch.setattr(trusted_git, "_COMMAND_TIMEOUT_S", 1.0)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="did not end"):
        prepare(repo, tmp_path / "state")
    assert time.monotonic() - began < 30, "plain git would wait for ever"
    assert not (tmp_path / "repo-agents").exists()


def test_the_lock_of_another_job_is_waited_for_within_the_deadline(tmp_path: Path) -> None:
    from runagent.git.repo_lock import hold_repo_lock

    repo = make_repository(tmp_path / "repo")
    with hold_repo_lock(str(repo / ".git"), 1):
        with pytest.raises(Unavailable, match=r"fleet-dispatch\.lock"):
            prepare(repo, tmp_path / "state", deadline_s=0.3)
    assert not (tmp_path / "repo-agents").exists()


@pytest.mark.parametrize(
    ("said", "kind", "code"),
    [
        ("fatal: could not create '/x/r-agents/j': No space left on device", "refused", "no_space"),
        ("fatal: cannot mkdir '/x/r-agents/j': Permission denied", "refused", "parent_unwritable"),
        (
            "error: cannot write '/x/r/.git/refs': Permission denied",
            "refused",
            "repo_unwritable",
        ),
        ("fatal: Unable to create '/x/r/.git/packed-refs.lock': File exists.", "unavailable", ""),
        ("fatal: something new", "could_not_check", ""),
    ],
)
def test_what_git_says_becomes_a_typed_error_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, kind: str, code: str
) -> None:
    monkeypatch.setattr(worktree_metadata, "PATIENCE_S", 0.0)

    class SaysSo(TrustedGit):
        def ask(self, *arguments: str) -> Answer:
            return Answer(128, "", f"{said}\n" if arguments[0] == "worktree" else "not a valid ref")

    with pytest.raises(FleetError) as caught:
        worktree_metadata.add_worktree(
            SaysSo(str(tmp_path)),
            branch="wt/j/t",
            path="/x/r-agents/j",
            commit="0" * 40,
            reason="r",
            deadline=Deadline(5),
        )
    assert caught.value.kind.startswith(kind) or kind == "refused"
    assert getattr(caught.value, "code", "") == code
    assert caught.value.remedy


@pytest.mark.parametrize(("needed", "kind"), [(2**62, RepositoryRefused), (0, CouldNotCheck)])
def test_a_ref_that_a_full_disk_did_not_take_is_told_as_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: int, kind: type[FleetError]
) -> None:
    """Git says only that it could not write; with room on the disk the cause is another."""
    monkeypatch.setattr(worktree_metadata, "_ROOM_BYTES", needed)

    class CannotWrite(TrustedGit):
        def ask(self, *_arguments: str) -> Answer:
            return Answer(128, "", "fatal: cannot update ref 'r': couldn't write 'r.lock'\n")

    with pytest.raises(kind) as caught:
        worktree_metadata.add_worktree(
            CannotWrite(str(tmp_path)),
            branch="wt/j/t",
            path=str(tmp_path / "r-agents" / "j"),
            commit="0" * 40,
            reason="r",
            deadline=Deadline(5),
        )
    assert getattr(caught.value, "code", "") == ("no_space" if needed else "")


def test_removal_that_cannot_finish_is_told(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    worktree = prepare(repo, tmp_path / "state")
    (repo / ".git" / "refs" / "heads" / f"{worktree.branch}.lock").touch()
    with pytest.raises(CouldNotCheck, match="could not be removed whole"):
        remove_worktree(worktree)
    assert not Path(worktree.path).exists()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/etc"])
def test_removal_takes_direct_children_alone(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="direct child"):
        remove_child(str(tmp_path), name)
    remove_child(str(tmp_path), "nothing-there")
