"""The box that a lost run left: its commits come home, or stay and are named."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from runagent.process import system_runner
from runagent.sandbox.box_facts import read_facts, write_facts
from runagent.sandbox.box_folder import keeps_commits, recover_box
from runagent.sandbox.bubblewrap import Bubblewrap
from runagent.sandbox.protocol import Site
from tests.support.boxes import private_in, site_in
from tests.support.repositories import git


def bubblewrap_in(folder: Path) -> Bubblewrap:
    return Bubblewrap(program="/usr/bin/bwrap", private=private_in(folder / "own"), caches=())


def left_box(folder: Path) -> tuple[Site, Path, str]:
    """Return a job whose run was lost after a commit in its box, the box's folder, the commit."""
    site = site_in(folder)
    bubblewrap_in(folder).enclose(site)
    box = Path(site.runtime_dir) / "box"
    base, tree = site.worktree.base_commit, Path(site.worktree.repo)
    objects = {"GIT_OBJECT_DIRECTORY": str(box / "git" / "objects")}
    more = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(tree / ".git" / "objects")}
    words = ("commit-tree", "-p", base, "-m", "boxed", f"{base}^{{tree}}")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(
        ["git", *identity, *words],
        cwd=tree,
        env={"PATH": os.environ["PATH"], **objects, **more},
        check=True,
        capture_output=True,
        text=True,
    )
    commit = done.stdout.strip()
    (box / "git" / f"refs/heads/{site.worktree.branch}").write_text(f"{commit}\n")
    return site, box, commit


def recovered(site: Site) -> list[str]:
    return [risk.code for risk in recover_box(site.runtime_dir, system_runner(), 60.0)]


def test_a_lost_box_s_commits_come_home_once(tmp_path: Path) -> None:
    site, box, commit = left_box(tmp_path)
    branch = f"refs/heads/{site.worktree.branch}"
    assert recovered(site) == []
    assert git(Path(site.worktree.repo), "rev-parse", branch) == commit
    assert not box.exists()
    assert recovered(site) == [], "a second look finds nothing to do"


@pytest.mark.parametrize("lost_at", ["update-ref", "read-tree", "facts"])
def test_a_run_lost_in_the_middle_of_its_import_is_gone_on_with(
    lost_at: str, tmp_path: Path
) -> None:
    site, box, commit = left_box(tmp_path)
    facts = read_facts(str(box))
    assert facts is not None
    repo, branch = Path(site.worktree.repo), f"refs/heads/{site.worktree.branch}"
    (box / "import" / "objects").mkdir(parents=True)  # half written
    if lost_at != "facts":
        write_facts(str(box), dataclasses.replace(facts, stood_at=(*facts.stood_at, commit)))
    if lost_at == "read-tree":
        for path in (box / "git" / "objects").glob("??/*"):
            place = repo / ".git" / "objects" / path.parent.name
            place.mkdir(exist_ok=True)
            (place / path.name).write_bytes(path.read_bytes())
        git(repo, "update-ref", branch, commit, facts.worktree.base_commit)
    assert recovered(site) == []
    assert git(repo, "rev-parse", branch) == commit
    assert not box.exists()


def test_a_box_that_was_never_ready_goes(tmp_path: Path) -> None:
    site, box, _ = left_box(tmp_path)
    (box / "facts.json").unlink()
    assert recovered(site) == []
    assert not box.exists()


@pytest.mark.parametrize("text", ["", "[]", '{"worktree": {}}', "nothing"])
def test_a_box_whose_facts_cannot_be_read_is_kept_and_named(text: str, tmp_path: Path) -> None:
    site, box, _ = left_box(tmp_path)
    (box / "facts.json").write_text(text)
    (risk,) = recover_box(site.runtime_dir, system_runner(), 60.0)
    assert risk.code == "commits_not_taken"
    assert str(box / "git") in risk.message
    assert (box / "git" / "refs").is_dir()


def test_the_owner_s_move_of_the_branch_outlives_a_recovery(tmp_path: Path) -> None:
    site, box, _ = left_box(tmp_path)
    base, repo = site.worktree.base_commit, Path(site.worktree.repo)
    theirs = git(repo, "commit-tree", "-p", base, "-m", "owner", f"{base}^{{tree}}")
    git(repo, "update-ref", f"refs/heads/{site.worktree.branch}", theirs)
    assert recovered(site) == ["commits_not_taken"]
    assert git(repo, "rev-parse", f"refs/heads/{site.worktree.branch}") == theirs
    assert keeps_commits(site.runtime_dir)
    assert sorted(os.listdir(box)) == ["facts.json", "git"]


def test_a_link_in_the_place_of_the_private_objects_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "link").symlink_to("nowhere")
    site, box, _ = left_box(tmp_path)
    (box / "git" / "objects").rename(box / "git" / "moved")
    (box / "git" / "objects").symlink_to(outside)
    assert recovered(site) == ["commits_not_taken"]
    assert (outside / "link").is_symlink()
