"""What people miss in a fresh worktree: ignored files (K14) and submodules (K01, K02, K84)."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.support.fleet import git, make_repository
from tests.support.repositories import attempt_git
from tests.support.trees import WRITE, TreeDesk

READ_ENV = """
text = Path('.env').read_text() if os.path.exists('.env') else 'missing'
Path('new.py').write_text('x = 1\\n')
finish(f'{text.strip()}')
"""


@pytest.fixture
def desk(tmp_path: Path) -> TreeDesk:
    return TreeDesk(tmp_path)


def _commit(repo: Path, **files: str) -> None:
    for name, text in files.items():
        path = repo / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "more")


def _ignore(repo: Path, rules: str, include: str) -> None:
    (repo / ".gitignore").write_text(rules)
    (repo / ".worktreeinclude").write_text(include)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "rules")


def _configure(desk: TreeDesk, text: str) -> None:
    desk.configure(f"gc = true\n[worktree]\n{text}")


# --- K14 ---------------------------------------------------------------------------------------
def test_ignored_files_that_the_list_names_are_there_and_never_count_as_changed(
    desk: TreeDesk,
) -> None:
    _ignore(desk.repo, ".env*\nlocal/\n*.pem\n", "# settings\n.env*\n!.env.old\nlocal/**/*.json\n")
    (desk.repo / ".env").write_text("KEY=1\n")
    (desk.repo / ".env").chmod(0o640)
    (desk.repo / ".env.old").write_text("old\n")
    (desk.repo / "local" / "deep").mkdir(parents=True)
    (desk.repo / "local" / "deep" / "a [b] *.json").write_text("{}\n")
    (desk.repo / "local" / "deep" / "c.txt").write_text("no\n")
    (desk.repo / "key.pem").write_text("secret\n")
    desk.agent(READ_ENV + "Path('.env').write_text('KEY=2\\n')")
    done = desk.run()
    tree = desk.tree(done)
    assert done.result["summary"] == "KEY=1"
    assert done.result["changed_files"] == ["new.py"]
    assert (tree / ".env").stat().st_mode & 0o777 == 0o640
    assert (tree / "local" / "deep" / "a [b] *.json").read_text() == "{}\n"
    for absent in (".env.old", "key.pem", "local/deep/c.txt"):
        assert not (tree / absent).exists(), absent
    assert (desk.repo / ".env").read_text() == "KEY=1\n"
    assert git(tree, "status", "--porcelain").split() == ["??", "new.py"]
    job = done.result["jobId"]
    assert desk.row(job)["uncommitted"] == 1, "a copy is no work"


def test_a_list_never_copies_over_a_tracked_file_nor_what_git_would_show_as_new(
    desk: TreeDesk,
) -> None:
    _commit(desk.repo, kept="committed\n")
    git(desk.repo, "branch", "plain")
    _ignore(desk.repo, ".env\n", "*\n.env\n")
    git(desk.repo, "rm", "-q", "--cached", "kept")
    (desk.repo / ".gitignore").write_text(".env\nkept\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "kept is ignored now")
    (desk.repo / "kept").write_text("the owner's\n")
    (desk.repo / ".env").write_text("KEY=1\n")
    (desk.repo / "untracked").write_text("not ignored\n")
    desk.agent(READ_ENV)
    done = desk.run("--branch", "plain")
    tree = desk.tree(done)
    assert (tree / "kept").read_text() == "committed\n"
    assert not (tree / ".env").exists(), "the branch does not ignore it: git add would take it in"
    assert not (tree / "untracked").exists()
    assert "include_skipped" in done.codes
    assert done.result["changed_files"] == ["new.py"]
    assert desk.run().result["summary"] == "KEY=1"


def test_what_only_the_owners_own_rules_ignore_is_copied_and_stays_out_of_the_changes(
    desk: TreeDesk,
) -> None:
    (desk.repo / ".worktreeinclude").write_text(".env\n")
    git(desk.repo, "add", "-A")
    git(desk.repo, "commit", "-q", "-m", "list")
    (desk.repo / ".git" / "info" / "exclude").write_text(".env\n")
    (desk.repo / ".env").write_text("KEY=1\n")
    desk.agent(READ_ENV + "Path('.env').write_text('KEY=2\\n')")
    done = desk.run()
    assert (done.result["summary"], done.result["changed_files"]) == ("KEY=1", ["new.py"])
    assert desk.row(done.result["jobId"])["uncommitted"] == 1


def test_a_list_leads_through_no_link(desk: TreeDesk) -> None:
    outside = desk.folder / "outside"
    outside.mkdir()
    (outside / "secret.env").write_text("secret\n")
    os.symlink(outside, desk.repo / "into")  # tracked: in the worktree it leads out as well
    _ignore(desk.repo, "*.env\n", "*.env\n")
    os.symlink(outside / "secret.env", desk.repo / "link.env")
    desk.agent(READ_ENV)
    done = desk.run()
    assert not os.path.lexists(desk.tree(done) / "link.env")
    assert "include_skipped" in done.codes
    (desk.repo / "into").unlink()
    (desk.repo / "into").mkdir()
    (desk.repo / "into" / "real.env").write_text("real\n")
    done = desk.run()
    assert list(outside.iterdir()) == [outside / "secret.env"]
    assert "include_skipped" in done.codes


def test_a_list_is_bounded_and_can_be_switched_off(desk: TreeDesk) -> None:
    _ignore(desk.repo, "many/\n", "many/\n")
    (desk.repo / "many").mkdir()
    for number in range(4):
        (desk.repo / "many" / f"{number}").write_text("12345678\n")
    desk.agent(READ_ENV)
    for bound in ("include_max_files = 3", "include_max_bytes = 20"):
        _configure(desk, bound)
        done = desk.run()
        assert "include_skipped" in done.codes
        assert not (desk.tree(done) / "many").exists()
    _configure(desk, "include = false")
    done = desk.run()
    assert "include_skipped" not in done.codes
    assert not (desk.tree(done) / "many").exists()
    _configure(desk, "include = true")
    done = desk.run()
    assert len(list((desk.tree(done) / "many").iterdir())) == 4


def test_a_list_in_a_commit_chooses_nothing(desk: TreeDesk) -> None:
    (desk.repo / ".gitignore").write_text(".env\n")
    _commit(desk.repo, readme="x\n")
    git(desk.repo, "checkout", "-q", "-b", "greedy")
    (desk.repo / ".worktreeinclude").write_text(".env\n")
    _commit(desk.repo, readme="y\n")
    git(desk.repo, "checkout", "-q", "master")
    (desk.repo / ".env").write_text("KEY=1\n")
    desk.agent(READ_ENV)
    assert desk.run("--branch", "greedy").result["summary"] == "missing"


# --- K01, K02, K84 -----------------------------------------------------------------------------
def _with_submodules(desk: TreeDesk) -> Path:
    """Give the desk's repository a submodule with another one inside; return the library's."""
    folder = desk.folder / "remotes"
    inner = make_repository(folder / "inner", {"inner.txt": "inner\n"})
    lib = make_repository(folder / "lib", {"lib.txt": "lib\n"})
    allowed = ("-c", "protocol.file.allow=always")
    git(lib, *allowed, "submodule", "--quiet", "add", str(inner), "deep")
    git(lib, "commit", "-q", "-m", "deep")
    git(desk.repo, *allowed, "submodule", "--quiet", "add", str(lib), "libs/lib")
    git(desk.repo, "commit", "-q", "-m", "lib")
    git(desk.repo, "submodule", "--quiet", "deinit", "--all", "--force")
    shutil.rmtree(desk.repo / ".git" / "modules")
    return lib


def test_submodules_that_the_host_leaves_empty_are_named(desk: TreeDesk) -> None:
    _with_submodules(desk)
    desk.agent(WRITE)
    done = desk.run()
    (risk,) = [risk for risk in done.result["risks"] if risk["code"] == "submodules_empty"]
    assert "libs/lib" in risk["message"]
    assert list((desk.tree(done) / "libs" / "lib").iterdir()) == []


@pytest.mark.parametrize("mode", ["init", "recursive"])
def test_submodules_are_filled_when_the_host_says_so_and_the_shared_settings_stay(
    desk: TreeDesk, mode: str
) -> None:
    _with_submodules(desk)
    config = (desk.repo / ".git" / "config").read_bytes()
    _configure(desk, f'submodules = "{mode}"\nsubmodule_protocols = ["file"]')
    desk.agent("assert Path('libs/lib/lib.txt').exists()\n" + WRITE)
    done = desk.run()
    assert done.result["changed_files"] == ["new.py"]
    assert "submodules_empty" not in done.codes
    assert "new.py" in desk.machine.succeed("worktrees", "diff", done.result["jobId"])
    lib = desk.tree(done) / "libs" / "lib"
    assert (lib / "deep" / "inner.txt").exists() == (mode == "recursive")
    assert (desk.repo / ".git" / "config").read_bytes() == config
    recorded = git(desk.tree(done), "rev-parse", "HEAD:libs/lib")
    assert git(lib, "rev-parse", "HEAD") == recorded


def test_an_address_over_a_protocol_that_the_host_does_not_name_is_not_asked(
    desk: TreeDesk,
) -> None:
    _with_submodules(desk)
    _configure(desk, 'submodules = "init"')
    desk.agent(WRITE)
    done = desk.run()
    (risk,) = [risk for risk in done.result["risks"] if risk["code"] == "submodules_empty"]
    assert "not allowed" in risk["message"]
    assert done.result["status"] == "completed"


def test_a_dead_address_costs_no_more_than_its_time_limit(desk: TreeDesk) -> None:
    _with_submodules(desk)
    with socket.socket() as silent:  # it takes the connection and never says a word
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/lib.git"
        git(desk.repo, "config", "--file", ".gitmodules", "submodule.libs/lib.url", address)
        git(desk.repo, "commit", "-q", "-a", "-m", "dead")
        _configure(
            desk,
            'submodules = "init"\nsubmodules_timeout_s = 2\nsubmodule_protocols = ["http"]',
        )
        desk.agent(WRITE)
        done = desk.run()
    (risk,) = [risk for risk in done.result["risks"] if risk["code"] == "submodules_empty"]
    assert "submodules_timeout_s" in risk["message"]
    assert done.result["durationSeconds"] >= 2, "the time counts in the job's"
    assert (done.result["status"], done.result["changed_files"]) == ("completed", ["new.py"])


def test_no_program_of_a_repository_runs_while_submodules_are_filled(desk: TreeDesk) -> None:
    lib = _with_submodules(desk)
    canary, script = desk.folder / "canary", desk.folder / "planted"
    script.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    script.chmod(0o755)
    _commit(lib, **{".gitattributes": "* filter=f\n"})
    git(
        desk.repo,
        "update-index",
        "--cacheinfo",
        f"160000,{git(lib, 'rev-parse', 'HEAD').strip()},libs/lib",
    )
    git(desk.repo, "commit", "-q", "-m", "newer lib")
    for key in ("filter.f.smudge", "core.fsmonitor", "core.sshCommand", "credential.helper"):
        git(desk.repo, "config", key, str(script))
    git(desk.repo, "config", "submodule.libs/lib.update", f"!{script}")
    hook = desk.repo / ".git" / "hooks" / "post-checkout"
    shutil.copy(script, hook)
    _configure(desk, 'submodules = "recursive"\nsubmodule_protocols = ["file"]')
    desk.agent(WRITE)
    done = desk.run()
    assert (desk.tree(done) / "libs" / "lib" / ".gitattributes").exists()
    assert not canary.exists()


def test_a_tree_with_submodules_is_removed_after_the_clean_check_and_restored(
    desk: TreeDesk,
) -> None:
    _with_submodules(desk)
    _configure(desk, 'submodules = "recursive"\nsubmodule_protocols = ["file"]')
    desk.agent("finish()")
    job = desk.run().result["jobId"]
    tree = desk.path(job)
    control = attempt_git(desk.repo, "worktree", "remove", str(tree))
    assert control.returncode != 0, "plain git does not remove a tree with submodules"
    assert desk.row(job)["states"] == ["clean"]
    (tree / "libs" / "lib" / "deep" / "inner.txt").write_text("changed\n")
    assert desk.row(job)["changedFiles"] == ["libs/lib/deep/inner.txt"]
    assert desk.machine.succeed("worktrees", "diff", job) == "", "no file of this repository"
    assert desk.machine.run("worktrees", "remove", job).returncode == 2
    (tree / "libs" / "lib" / "deep" / "inner.txt").write_text("inner\n")
    desk.machine.succeed("worktrees", "remove", job)
    assert not tree.exists()
    desk.machine.succeed("worktrees", "restore", job)
    deep = tree / "libs" / "lib" / "deep"
    assert git(deep, "rev-parse", "HEAD") == git(deep.parent, "rev-parse", "HEAD:deep")
    assert git(tree, "status", "--porcelain") == ""


def test_a_commit_in_a_submodule_that_no_remote_has_keeps_its_tree(desk: TreeDesk) -> None:
    _with_submodules(desk)
    _configure(desk, 'submodules = "init"\nsubmodule_protocols = ["file"]')
    desk.agent("finish()")
    job = desk.run().result["jobId"]
    tree = desk.path(job)
    _commit(tree / "libs" / "lib", work="x\n")
    git(tree, "commit", "-q", "-a", "-m", "newer lib")
    git(desk.repo, "merge", "-q", desk.branch(job))
    row = desk.row(job)
    assert not row["safeToRemove"]
    assert "a commit of its own" in row["problems"][0]
