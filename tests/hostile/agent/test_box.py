"""What an agent and a validator can do in a box, for real, and what of it reaches the host."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import threading
from pathlib import Path

import pytest

from contracts.run_agent import RunAgentResult, Status
from contracts.sandbox import Capability
from tests.support.boxes import BoxBench, Make
from tests.support.repositories import attempt_git, git

pytestmark = pytest.mark.linux

WORK = "echo work > new.txt; git add -A; git commit -qm work\n"


@pytest.mark.parametrize("mode", ["bwrap", "landlock", "none"])
def test_what_it_commits_is_in_the_real_store_and_only_the_job_s_branch_moved(
    make: Make, mode: str
) -> None:
    bench = make(mode)
    git(bench.repo, "branch", "feature")
    git(bench.repo, "tag", "v1")
    before = _refs(bench)
    result = bench.act(
        WORK + "echo more > more.txt; git add -A; git commit -qm more\n",
        validateCommand="git log -1 --format=%s | grep more",
    )
    assert result.status is Status.COMPLETED, result
    assert (result.known_risks, result.needs_human_review) == ((), False)
    assert result.changed_files == ("more.txt", "new.txt")
    assert git(bench.repo, "log", "--format=%s", result.branch).split() == ["more", "work", "first"]
    after = _refs(bench)
    assert after.pop(f"refs/heads/{result.branch}") == result.headCommit
    assert after == before
    assert git(bench.repo, "fsck", "--strict") == ""
    tree = Path(result.worktreePath)
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "rev-parse", "HEAD") == result.headCommit
    git(bench.repo, "gc", "--quiet", "--prune=now")
    assert git(bench.repo, "fsck", "--strict") == ""
    assert not (bench.runtime_dir(result.jobId) / "box").exists()


def _refs(bench: BoxBench) -> dict[str, str]:
    lines = git(bench.repo, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.split() for line in lines)  # type: ignore[misc]


def test_other_branches_move_in_the_box_alone_and_that_is_told(make: Make) -> None:
    script = (
        WORK + "git branch other\ngit branch -f feature\ngit update-ref refs/heads/master HEAD\n"
    )
    for mode in ("none", "bwrap"):
        bench = make(mode)
        git(bench.repo, "branch", "feature")
        before = _refs(bench)
        result = bench.act(script)
        after = _refs(bench)
        del after[f"refs/heads/{result.branch}"]
        assert (after == before) is (mode == "bwrap")
        codes = {risk.code for risk in result.risks}
        assert ("branches_left_behind" in codes) is (mode == "bwrap")
        assert result.needs_human_review


def test_while_it_works_the_real_repository_stays_whole_for_its_owner(make: Make) -> None:
    """A commit, and files that are only staged, must not break the owner's `git gc`."""
    bench = make("bwrap")
    released = bench.home / ".cache" / "released"
    script = (
        WORK + "echo staged > staged.txt; git add staged.txt\n"
        f"touch $HOME/.cache/ready; until [ -e {released} ]; do sleep 0.05; done\n"
    )
    results: list[RunAgentResult] = []
    thread = threading.Thread(target=lambda: results.append(bench.act(script)))
    thread.start()
    ready = bench.home / ".cache" / "ready"
    while thread.is_alive() and not ready.exists():
        thread.join(0.05)
    assert attempt_git(bench.repo, "gc", "--quiet", "--prune=now").returncode == 0
    assert attempt_git(bench.repo, "fsck", "--strict").returncode == 0
    released.write_text("")
    thread.join()
    (result,) = results
    assert result.changed_files == ("new.txt", "staged.txt")
    assert git(bench.repo, "log", "-1", "--format=%s", result.branch) == "work"
    assert git(Path(result.worktreePath), "status", "--porcelain") == "?? staged.txt"
    assert attempt_git(bench.repo, "fsck", "--strict").returncode == 0


def test_git_s_larger_tools_work_in_the_box(make: Make) -> None:
    script = (
        "set -e\n" + WORK + "git branch tmp\necho a > a.txt; git add -A; git commit -qm a\n"
        "git checkout -q tmp; echo b > b.txt; git add -A; git commit -qm b\n"
        "git checkout -q -; git cherry-pick tmp; git branch -D tmp\n"
        "git rebase -q --onto HEAD~3 HEAD~3; git stash list; git gc -q; git log --oneline\n"
    )
    bench = make("bwrap")
    result = bench.act(script)
    assert result.exitCode == 0, bench.said(result)
    said = git(bench.repo, "log", "--format=%s", result.branch).split()
    assert said == ["b", "a", "work", "first"]
    assert git(bench.repo, "fsck", "--strict") == ""


def test_a_corrupt_object_does_not_come_home_and_is_kept(make: Make) -> None:
    script = (
        WORK + "blob=$(git rev-parse HEAD:new.txt); file={repo}/.git/objects/"
        "${{blob:0:2}}/${{blob:2}}; chmod u+w $file; printf x > $file\n"
    )
    bench = make("bwrap")
    result = bench.act(script.format(repo=bench.repo))
    assert "commits_not_taken" in {risk.code for risk in result.risks}
    assert result.needs_human_review
    assert git(bench.repo, "rev-parse", result.branch) == result.baseCommit
    assert git(bench.repo, "fsck", "--strict") == ""
    assert (bench.runtime_dir(result.jobId) / "box" / "git" / "objects").is_dir()


def test_a_pipe_in_the_place_of_an_object_does_not_hold_the_host(make: Make) -> None:
    script = (
        WORK + "commit=$(git rev-parse HEAD); file={repo}/.git/objects/"
        "${{commit:0:2}}/${{commit:2}}; rm -f $file; mkfifo $file\n"
    )
    bench = make("bwrap")
    result = bench.act(script.format(repo=bench.repo))
    assert result.needs_human_review
    assert git(bench.repo, "rev-parse", result.branch) == result.baseCommit
    assert git(bench.repo, "fsck", "--strict") == ""


def test_a_login_that_is_refreshed_by_renaming_and_its_sessions_stay_on_the_host(
    make: Make,
) -> None:
    script = (
        "cd $HOME/.claude; echo new > .credentials.tmp && mv .credentials.tmp .credentials.json\n"
        "mkdir -p projects/p && echo turn > projects/p/session.jsonl\n"
        "echo changed > $HOME/.claude.new && mv $HOME/.claude.new $HOME/.claude.json && echo OWN\n"
    )
    bench = make("bwrap")
    state = bench.home / ".claude"
    state.mkdir()
    (state / ".credentials.json").write_text("old\n")
    (bench.home / ".claude.json").write_text('{"mcpServers": {}}')
    said = bench.said(bench.act(script))
    assert (state / ".credentials.json").read_text() == "new\n", said
    assert (state / "projects" / "p" / "session.jsonl").read_text() == "turn\n"
    assert "OWN" in said  # it may replace its copy
    assert (bench.home / ".claude.json").read_text() == '{"mcpServers": {}}'


def test_a_moved_state_folder_is_the_one_that_is_bound(make: Make) -> None:
    bench = make("bwrap")
    moved = bench.folder / "elsewhere"
    moved.mkdir()
    bench.environment["CLAUDE_CONFIG_DIR"] = str(moved)
    said = bench.said(
        bench.act(
            "echo new > $CLAUDE_CONFIG_DIR/login; echo x > $CLAUDE_CONFIG_DIR/settings.json\n"
        )
    )
    assert (moved / "login").read_text() == "new\n", said
    assert (moved / "settings.json").read_text() == "{}\n"


def test_a_settings_file_that_is_a_link_is_put_back_and_told(make: Make) -> None:
    bench = make("bwrap")
    state = bench.home / ".claude"
    state.mkdir()
    (bench.home / "dotfiles").mkdir()
    (bench.home / "dotfiles" / "settings.json").write_text("{}")
    (state / "settings.json").symlink_to("../dotfiles/settings.json")
    result = bench.act("cd $HOME/.claude; rm settings.json; echo planted > settings.json\n")
    assert os.readlink(state / "settings.json") == "../dotfiles/settings.json"
    assert (bench.home / "dotfiles" / "settings.json").read_text() == "{}"
    assert "tampered" in {risk.code for risk in result.risks}
    plain = bench.act("true\n")
    assert "tampered" not in {risk.code for risk in plain.risks}


@pytest.mark.parametrize("mode", ["bwrap", "landlock", "none"])
def test_a_validator_that_writes_its_cache_passes_as_it_does_without_a_box(
    make: Make, mode: str
) -> None:
    bench = make(mode)
    (bench.home / ".cache" / "known").mkdir(parents=True)
    command = "mkdir -p ~/.cache/new && echo x > ~/.cache/new/x && echo y > ~/.cache/known/y"
    result = bench.act(WORK, validateCommand=command)
    assert result.tests_attempted == (f"{command} => exit 0",)
    assert (bench.home / ".cache" / "new" / "x").read_text() == "x\n"


def test_tool_caches_are_filled_for_the_next_run(make: Make) -> None:
    bench = make("bwrap")
    there = (".npm", ".cargo/registry", ".nuget/packages", "go/pkg/mod", ".m2/repository")
    for name in there:
        (bench.home / name).mkdir(parents=True)
    script = "".join(f"echo x > $HOME/{name}/filled\n" for name in (*there, ".cache"))
    said = bench.said(bench.act(script))
    for name in (*there, ".cache"):
        assert (bench.home / name / "filled").read_text() == "x\n", said


def test_a_host_may_list_its_own_caches_and_no_other_is_open_then(make: Make) -> None:
    bench = make("bwrap", caches=(".mine",))
    (bench.home / ".npm").mkdir()
    said = bench.said(bench.act("echo x > $HOME/.mine/x; echo x > $HOME/.npm/x\n"))
    assert (bench.home / ".mine" / "x").exists(), said
    assert list((bench.home / ".npm").iterdir()) == []


def test_what_it_makes_anew_in_the_home_is_the_box_s_own_and_is_there_at_the_second_start(
    make: Make,
) -> None:
    bench = make("bwrap")
    (bench.home / ".config" / "tool").mkdir(parents=True)
    first = "echo x > $HOME/mine; mkdir $HOME/.config/new; echo x > /tmp/mine\n" + WORK + "exit 3\n"
    second = "cat $HOME/mine /tmp/mine && ls -d $HOME/.config/* && git log --format=%s\n"
    result = bench.act(first, second)
    assert (result.attempts, result.exitCode) == (2, 0)
    said = bench.said(result, 2)
    assert said.split()[:2] == ["x", "x"]
    assert ".config/new" in said and ".config/tool" in said and "work" in said
    assert not (bench.home / "mine").exists()
    assert not (bench.home / ".config" / "new").exists()
    assert not Path("/tmp/mine").exists()


def test_the_network_is_open_and_the_result_says_so(make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        bench = make("bwrap")
        result = bench.act(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo OPEN\n")
    assert "OPEN" in bench.said(result)
    assert result.sandbox.notEnforced == ("network",)


@pytest.mark.parametrize("mode", ["bwrap", "none"])
def test_an_agent_that_is_told_to_end_has_its_grace_in_the_box_too(make: Make, mode: str) -> None:
    bench = make(mode)
    script = "trap 'echo saved > saved.txt; exit 0' TERM; echo up; sleep 60 & wait\n"
    result = bench.act(script, limit_s=1.5)
    assert result.status is Status.TIMED_OUT
    assert result.changed_files == ("saved.txt",)


@pytest.mark.parametrize("mode", ["bwrap", "landlock", "none"])
def test_exit_codes_and_missing_programs_are_told_as_without_a_box(make: Make, mode: str) -> None:
    bench = make(mode)
    assert bench.act("exit 7\n").exitCode == 7
    assert bench.act("kill -KILL $$\n").exitCode == 137
    result = bench.act(WORK, validateCommand="no-such-program-anywhere")
    assert result.tests_attempted == ("no-such-program-anywhere => exit 127",)


def test_the_result_says_what_stood_around_it(make: Make) -> None:
    said = {mode: make(mode).act(WORK).sandbox for mode in ("bwrap", "landlock", "none")}
    assert said["bwrap"].enforces == (
        *("writes", "keys", "git", "agent_settings", "sockets", "processes"),
    )
    assert said["landlock"].enforces == ("writes", "keys")
    assert said["none"].enforces == ()
    for mode, report in said.items():
        assert report.mode == mode
        assert {*report.enforces, *report.notEnforced} == {str(each) for each in Capability}


def test_a_policy_that_asks_for_more_than_the_box_enforces_starts_nothing(make: Make) -> None:
    for mode, starts in (("bwrap", True), ("landlock", False), ("none", False)):
        bench = make(mode)
        bench.act("true\n")  # the agent is in place
        order = dataclasses.replace(
            bench.order(), require_sandbox=frozenset({Capability.KEYS, Capability.SOCKETS})
        )
        result = bench.carry_out(order, {"sandbox": bench.sandbox})
        assert (result.attempts > 0) is starts
        if not starts:
            assert [risk.code for risk in result.risks] == ["sandbox"]
            assert "sockets" in result.summary
            assert json.loads(result.to_json())["worktreePath"] == ""


def test_a_commit_that_changes_and_removes_old_files_comes_home(make: Make) -> None:
    """The worktree's index follows the new commit; what is not committed stays as it lies."""
    bench = make("bwrap")
    for name in ("kept.txt", "gone.txt"):
        (bench.repo / name).write_text("old\n")
    git(bench.repo, "add", "-A")
    git(bench.repo, "commit", "-q", "-m", "second")
    script = (
        "echo new > kept.txt; git rm -q gone.txt; git mv README.md moved.md\n"
        "git commit -qam work; echo later >> kept.txt\n"
    )
    result = bench.act(script)
    assert git(bench.repo, "log", "-1", "--format=%s", result.branch) == "work"
    tree = Path(result.worktreePath)
    assert git(tree, "ls-files").split() == ["kept.txt", "moved.md"]
    assert git(tree, "status", "--porcelain").strip() == "M kept.txt"
