"""Around the worktree: what an agent does there is told, what owners and other jobs do is not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.desk import Done
from tests.support.fleet import wait_until
from tests.support.repositories import git
from tests.support.tricked_desk import MODES, TrickedDesk, script_worked

_WAITS = """
echo "$OUTSIDE" > a.txt; git add -A; git commit -qm half; touch started
while [ ! -e go ]; do sleep 0.1; done
rm go started; echo y > new.txt; git add -A; git commit -qm whole
"""


def run_with(desk: TrickedDesk, meanwhile: Callable[[], None]) -> Done:
    """Run an agent that waits in the middle of its work for `meanwhile` to be done."""
    done: list[Done] = []
    thread = threading.Thread(target=lambda: done.append(desk.run(_WAITS)))
    thread.start()
    try:
        wait_until(lambda: bool(waiting(desk.repo)), "an agent waits", 240.0)
        meanwhile()
    finally:
        for tree in waiting(desk.repo):
            (tree / "go").touch()
        thread.join(300)
    return done[0]


def waiting(repo: Path) -> list[Path]:
    """Return the worktrees in which an agent waits."""
    return [path.parent for path in Path(f"{repo}-agents").glob("*/started")]


@pytest.mark.parametrize("mode", MODES)
def test_an_owner_commits_fetches_pushes_and_branches_meanwhile(tmp_path: Path, mode: str) -> None:
    desk = TrickedDesk(tmp_path, mode)
    repo = desk.repo
    git(tmp_path, "init", "-q", "--bare", "origin.git")
    git(repo, "remote", "add", "origin", str(tmp_path / "origin.git"))
    git(repo, "push", "-q", "origin", "master")
    git(tmp_path, "clone", "-q", str(tmp_path / "origin.git"), "colleague")

    def owner() -> None:
        (repo / "b.txt").write_text("the owner's\n")
        git(repo, "commit", "-q", "-am", "owner")
        git(repo, "checkout", "-q", "-b", "feature")
        git(repo, "push", "-q", "-u", "origin", "feature")
        (repo / "owner.txt").write_text("the owner's\n")
        git(repo, "add", "-A")
        git(repo, "commit", "-q", "-m", "owner again")
        git(repo, "checkout", "-q", "master")
        git(repo, "merge", "-q", "--no-edit", "feature")
        git(repo, "branch", "another")
        git(repo, "tag", "v1")
        colleague = tmp_path / "colleague"
        git(colleague, "commit", "-q", "--allow-empty", "-m", "colleague")
        git(colleague, "push", "-q", "origin", "HEAD:refs/heads/theirs")
        git(repo, "fetch", "-q", "--all", "--prune")
        git(repo, "config", "user.email", "ada@example.org")

    done = run_with(desk, owner)
    assert script_worked(done), done.stderr
    assert done.result["known_risks"] == []
    assert done.result["needs_human_review"] is False
    assert set(done.result["agent_changed_files"]) == {"a.txt", "new.txt"}
    assert {note["code"] for note in done.result["notes"]} == {"checkout_moved"}


@pytest.mark.parametrize("mode", MODES)
def test_an_edit_in_the_main_checkout_is_a_risk_only_where_the_agent_could_write(
    tmp_path: Path, mode: str
) -> None:
    desk = TrickedDesk(tmp_path, mode)
    done = run_with(desk, lambda: (desk.repo / "b.txt").write_bytes(b"an edit\n") and None)
    told, noted = done.codes, {note["code"] for note in done.result["notes"]}
    boxed = "writes" in done.result["sandbox"]["enforces"]
    assert (told, noted) == (
        (set(), {"checkout_changed"}) if boxed else ({"checkout_changed"}, set())
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_hook_of_the_owner_is_a_risk_only_where_the_agent_could_write(
    tmp_path: Path, mode: str
) -> None:
    desk = TrickedDesk(tmp_path, mode)
    hook = desk.repo / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    done = run_with(desk, lambda: hook.write_text("#!/bin/sh\n") and None)
    told, noted = done.codes, {note["code"] for note in done.result["notes"]}
    if "git" in done.result["sandbox"]["enforces"]:
        assert (told, noted) == (set(), {"tampered"})
    else:
        assert told == {"tampered", "repo_quarantined"}


@pytest.mark.parametrize("mode", MODES)
def test_jobs_of_two_homes_on_one_repository_do_not_alarm_each_other(
    tmp_path: Path, mode: str
) -> None:
    desks = [TrickedDesk(tmp_path / name, mode) for name in ("one", "two")]
    desks[1].repo = desks[0].repo
    done: dict[int, Done] = {}
    threads = [
        threading.Thread(target=lambda n=n: done.update({n: desks[n].run(_WAITS)})) for n in (0, 1)
    ]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(waiting(desks[0].repo)) == 2, "two agents wait", 300.0)
    finally:
        for tree in waiting(desks[0].repo):
            (tree / "go").touch()
        for thread in threads:
            thread.join(300)
    for ended in done.values():
        assert script_worked(ended), ended.stderr
        assert ended.result["known_risks"] == []
        assert ended.result["notes"] == []
        assert ended.result["needs_human_review"] is False
    assert len(done) == 2


_OUTSIDE = {
    "start_file": ('echo evil >> "$HOME/.bashrc"', "outside_changed"),
    "key": ('mkdir -p "$HOME/.ssh"; echo k >> "$HOME/.ssh/authorized_keys"', "outside_changed"),
    "own_policy": ('echo "# mine" >> "$HOME/fleet/config.toml"', "outside_changed"),
    "main_file": ('echo evil >> "$REPO/src/app.py"', "checkout_changed"),
    "main_new": ('echo evil > "$REPO/new.py"', "checkout_changed"),
    "main_link": ('ln -s /etc/passwd "$REPO/link"', "checkout_changed"),
    "main_head": ('echo "ref: refs/heads/kept" > "$REPO/.git/HEAD"', "ref_moved"),
    "rewind": ("git update-ref refs/heads/kept kept~1", "ref_moved"),
    "tag": ("git tag -d v0", "ref_moved"),
    "deleted": ("git branch -D kept", "ref_moved"),
    "sibling": ('echo "gitdir: /elsewhere" > "$REPO/../other/.git"', "sibling_changed"),
    "sibling_admin": ('echo /x > "$REPO/.git/worktrees/other/commondir"', "sibling_changed"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", _OUTSIDE)
def test_a_write_outside_the_worktree_never_passes_for_clean(
    tmp_path: Path, name: str, mode: str
) -> None:
    desk = TrickedDesk(tmp_path, mode)
    git(desk.repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(desk.repo, "branch", "kept")
    git(desk.repo, "tag", "v0")
    git(desk.repo, "worktree", "add", "-q", "-b", "wt/other/T-9", str(desk.repo.parent / "other"))
    (desk.desk.machine.home / ".bashrc").write_text("# mine\n")
    script, code = _OUTSIDE[name]
    done = desk.run(f"echo x > a.txt\n{script}")
    if mode == "none":
        assert script_worked(done), done.stderr
        assert code in done.codes
        assert done.result["needs_human_review"] is True
    else:
        assert not done.codes & {"outside_changed", "checkout_changed", "ref_moved"}
        assert (desk.desk.machine.home / ".bashrc").read_text() == "# mine\n"
        assert "evil" not in (desk.repo / "src" / "app.py").read_text()
        assert not (desk.repo / "new.py").exists()
        assert git(desk.repo, "rev-parse", "v0", "kept")
        assert git(desk.repo.parent / "other", "status", "--porcelain") == ""
