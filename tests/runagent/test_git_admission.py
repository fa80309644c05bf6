"""Which repositories a worktree may be cut from, and where it starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contracts.errors import CouldNotCheck, RepositoryRefused, Unavailable
from runagent.git.repository import admit_repository, choose_base
from tests.support.repositories import attempt_git, git, make_repository
from tests.support.tools import require_root
from tests.support.unprivileged import NOBODY, PROJECT, give_away


def refusal(path: Path | str, branch: str | None = None) -> RepositoryRefused:
    with pytest.raises(RepositoryRefused) as caught:
        choose_base(admit_repository(str(path)), branch)
    assert caught.value.remedy, "a refusal says how to mend it"
    return caught.value


def test_a_repository_with_a_master_branch_is_admitted_at_its_tip(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    admitted = admit_repository(str(repo))
    assert admitted.main == str(repo)
    assert admitted.common_dir == str(repo / ".git")
    base = choose_base(admitted, None)
    assert (base.ref, base.commit) == ("master", git(repo, "rev-parse", "master"))


def test_a_path_that_does_not_exist_is_refused_as_missing(tmp_path: Path) -> None:
    refused = refusal(tmp_path / "nowhere")
    assert refused.code == "repo_missing"
    assert "nowhere" in str(refused)


@pytest.mark.parametrize("path", ["relative/path", "/tmp/two\nlines", "/tmp/nul\0"])
def test_a_path_that_cannot_be_one_is_refused_as_missing(path: str) -> None:
    assert refusal(path).code == "repo_missing"


def test_a_folder_without_git_is_refused_as_no_repository(tmp_path: Path) -> None:
    assert refusal(tmp_path).code == "not_a_repo"


def test_a_file_is_refused_as_no_repository(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert refusal(file).code == "not_a_repo"


def test_a_folder_inside_a_work_tree_is_never_taken_for_its_parent(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "home")
    inner = repo / "project"
    inner.mkdir()
    control = git(inner, "rev-parse", "--show-toplevel")
    assert control == str(repo), "plain git works in the parent's repository without a word"
    refused = refusal(inner)
    assert refused.code == "not_a_repo"
    assert str(repo) in str(refused)


def test_the_git_folder_itself_is_refused(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    assert refusal(repo / ".git").code == "not_a_repo"


def test_a_bare_repository_is_refused_as_bare(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    assert refusal(tmp_path / "bare.git").code == "bare"


def test_a_repository_without_commits_is_refused_with_those_words(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "master", "empty")
    refused = refusal(tmp_path / "empty")
    assert refused.code == "no_commits"
    assert "no commits" in str(refused)
    assert refusal(tmp_path / "empty", "master").code == "no_commits"


def test_refs_that_cannot_be_read_are_not_taken_for_no_commits(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    commit = git(repo, "rev-parse", "HEAD")
    (repo / ".git" / "objects" / commit[:2] / commit[2:]).unlink()
    with pytest.raises(CouldNotCheck):
        choose_base(admit_repository(str(repo)), None)


def test_a_repository_of_another_user_is_refused_with_the_way_to_trust_it(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    require_root()
    give_away(repo, NOBODY)
    assert b"dubious" in attempt_git(repo, "status").stderr, "plain git refuses it as well"
    refused = refusal(repo)
    assert refused.code == "not_trusted"
    assert "safe.directory" in refused.remedy


def test_a_trusted_repository_of_another_user_is_admitted(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    require_root()
    give_away(repo, NOBODY)
    git(tmp_path, "config", "--global", "safe.directory", str(repo))
    assert admit_repository(str(repo)).main == str(repo)


def test_a_linked_worktree_leads_to_its_main_work_tree(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "worktree", "add", "-q", str(tmp_path / "linked"))
    admitted = admit_repository(str(tmp_path / "linked"))
    assert admitted.main == str(repo)
    assert admitted.common_dir == str(repo / ".git")


def test_a_worktree_of_a_bare_repository_stands_for_itself(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(tmp_path, "clone", "-q", "--bare", str(repo), "bare.git")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "tree"), "master")
    admitted = admit_repository(str(tmp_path / "tree"))
    assert admitted.main == str(tmp_path / "tree")
    assert admitted.common_dir == str(tmp_path / "bare.git")


def test_a_separate_git_directory_is_admitted(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(tmp_path, "clone", "-q", "--separate-git-dir", str(tmp_path / "git"), str(repo), "tree")
    admitted = admit_repository(str(tmp_path / "tree"))
    assert (admitted.main, admitted.common_dir) == (str(tmp_path / "tree"), str(tmp_path / "git"))


def test_a_link_to_a_repository_leads_to_the_real_folder(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    (tmp_path / "link").symlink_to(repo)
    assert admit_repository(str(tmp_path / "link")).main == str(repo)


def test_spaces_and_accents_in_the_path_are_admitted(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "Möin dépôt 'x' $(y)")
    assert admit_repository(str(repo)).main == str(repo)


def test_without_master_the_default_of_origin_is_the_base(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin", branch="trunk")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    git(clone, "branch", "other")
    base = choose_base(admit_repository(str(clone)), None)
    assert (base.ref, base.commit) == ("origin/trunk", git(origin, "rev-parse", "trunk"))


def test_without_master_and_origin_the_only_branch_is_the_base(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", branch="main")
    git(repo, "branch", "wt/aaaaaaaaaaaaaaaaaaaa/T-1")
    assert choose_base(admit_repository(str(repo)), None).ref == "main"


def test_without_master_and_with_two_branches_the_base_is_refused(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", branch="main")
    git(repo, "branch", "other")
    assert refusal(repo).code == "base_unknown"


def test_an_explicit_branch_that_is_missing_is_never_replaced(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo", branch="main")
    refused = refusal(repo, "master")
    assert refused.code == "base_unknown"
    assert "master" in str(refused)


def test_a_remote_tracking_branch_and_a_tag_are_bases(tmp_path: Path) -> None:
    origin = make_repository(tmp_path / "origin", branch="main")
    git(origin, "tag", "-a", "v1", "-m", "one")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    admitted = admit_repository(str(tmp_path / "clone"))
    tip = git(origin, "rev-parse", "main")
    for name in ("origin/main", "v1", "refs/tags/v1", "refs/remotes/origin/main"):
        assert choose_base(admitted, name).commit == tip


def test_a_branch_wins_over_a_tag_of_the_same_name(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "tag", "same")
    git(repo, "commit", "-q", "--allow-empty", "-m", "second")
    git(repo, "branch", "same")
    control = git(repo, "rev-parse", "same")
    assert control == git(repo, "rev-parse", "master~1"), "plain git takes the tag"
    assert choose_base(admit_repository(str(repo)), "same").commit == git(
        repo, "rev-parse", "master"
    )


def test_a_tag_of_no_commit_is_refused(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "tag", "blob", git(repo, "rev-parse", "HEAD:readme.txt"))
    assert refusal(repo, "blob").code == "base_unknown"


@pytest.mark.parametrize(
    "name",
    [
        *("--orphan", "-q", "$(touch fired)", "a b", "x\ny", "HEAD", "HEAD~0", "master@{0}"),
        *(":/first", "master^{tree}", "../heads/master", "", "refs/heads/", "master..master"),
    ],
)
def test_a_base_that_is_no_ref_name_is_refused_and_never_an_option(
    tmp_path: Path, name: str
) -> None:
    repo = make_repository(tmp_path / "repo")
    assert refusal(repo, name).code == "base_unknown"
    assert not list(tmp_path.rglob("fired"))


def test_location_variables_of_an_outer_git_do_not_lead_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = make_repository(tmp_path / "outer")
    repo = make_repository(tmp_path / "repo", branch="main")
    monkeypatch.setenv("GIT_DIR", str(outer / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(outer / ".git" / "index"))
    assert git(repo, "rev-parse", "--git-dir") == str(outer / ".git"), "plain git is led astray"
    admitted = admit_repository(str(repo))
    assert admitted.common_dir == str(repo / ".git")
    assert choose_base(admitted, None).ref == "main"


def test_a_process_that_never_saw_git_is_unavailable_with_the_remedy(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    code = (
        "import sys\n"
        "from contracts.errors import Unavailable\n"
        "from runagent.git.repository import admit_repository\n"
        "try:\n    admit_repository(sys.argv[1])\n"
        "except Unavailable as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(repo)],
        cwd=PROJECT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "install git" in done.stdout


def test_a_machine_without_git_is_unavailable_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repository(tmp_path / "repo")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="install git"):
        admit_repository(str(repo))
