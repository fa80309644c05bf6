"""Git as the owner would run it: the same answers from the process seam and from GitPython."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from contracts.errors import CouldNotCheck, Unavailable
from runagent import _direct
from runagent._cgroup import MARKER_NAME
from runagent.git import trusted_git
from runagent.git.repository import admit_repository, choose_base
from runagent.git.trusted_git import Answer, TrustedGit
from runagent.leftovers import Leftovers, end_leftovers
from runagent.process import EndState, ProcessSpec
from runagent.trees.worktree_metadata import refuse_taken_names
from tests.support.repositories import git, make_repository


@pytest.fixture(params=["direct", "gitpython"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "gitpython":
        monkeypatch.setattr(trusted_git, "can_run_directly", lambda: False)
    else:
        _need_descriptors()
    return str(request.param)


def _need_descriptors() -> None:
    if not trusted_git.can_run_directly():
        pytest.skip("platform: it has no descriptors of processes")


def test_an_answer_is_the_bytes_and_the_code_that_git_ended_with(tmp_path: Path, way: str) -> None:
    repo = make_repository(tmp_path / "repo")
    asked = TrustedGit(str(repo))
    commit = git(repo, "rev-parse", "HEAD").strip()
    assert asked.ask("rev-parse", "HEAD") == Answer(0, f"{commit}\n", "")
    refused = asked.ask("rev-parse", "--verify", "refs/heads/none")
    assert (refused.code, refused.out) == (128, "")
    assert "fatal: " in refused.error


def test_a_name_that_is_no_text_comes_back_as_it_is(tmp_path: Path, way: str) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "config", "core.quotePath", "false")
    git(repo, "branch", os.fsdecode(b"caf\xe9"))
    listed = TrustedGit(str(repo)).tell("for-each-ref", "--format=%(refname)", "refs/heads")
    assert os.fsencode(listed.splitlines()[0]) == b"refs/heads/caf\xe9"


def test_git_speaks_english_and_asks_nobody_whatever_the_owner_has_set(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "1")
    monkeypatch.setenv("OWNERS", "own")
    repo = make_repository(tmp_path / "repo")
    git(repo, "config", "alias.tell", "!echo $LC_ALL $GIT_TERMINAL_PROMPT $OWNERS")
    assert TrustedGit(str(repo)).tell("tell") == "C 0 own"


def test_a_location_that_was_inherited_leads_nowhere(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repository(tmp_path / "other")
    repo = make_repository(tmp_path / "repo")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    shown = TrustedGit(str(repo)).tell("rev-parse", "--path-format=absolute", "--git-dir")
    assert shown == str(repo / ".git")


def test_without_git_it_is_told_what_to_install(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="git") as caught:
        TrustedGit(str(tmp_path)).ask("version")
    assert "install git" in caught.value.remedy
    assert str(caught.value).count("install") == 1


def test_a_git_that_is_there_and_does_not_start_is_told_with_what_mends_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _need_descriptors()
    program = tmp_path / "git"
    program.write_text("#!/no/such/interpreter\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    told = []
    for mode in (0o644, 0o755):
        program.chmod(mode)
        with pytest.raises(Unavailable) as caught:
            TrustedGit(str(tmp_path)).ask("version")
        told.append(str(caught.value))
    before = f"git cannot be started here: {program}"
    assert told == [
        f"{before} is not executable (chmod +x it)",
        f"{before}: the interpreter on its first line is missing (install it)",
    ]


def test_a_git_that_does_not_end_is_ended_and_told(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repository(tmp_path / "repo")
    git(repo, "config", "alias.hang", "!exec sleep 600")
    monkeypatch.setattr(trusted_git, "_COMMAND_TIMEOUT_S", 0.5)
    with pytest.raises(Unavailable, match="did not end"):
        TrustedGit(str(repo)).ask("hang")


def test_a_git_that_hangs_is_found_by_its_runs_marker_when_whoever_asked_was_killed(
    tmp_path: Path,
) -> None:
    _need_descriptors()
    repo = make_repository(tmp_path / "repo")
    (repo / ".git" / "HEAD").unlink()
    os.mkfifo(repo / ".git" / "HEAD")
    code = "import sys; from runagent.git.trusted_git import *; TrustedGit(sys.argv[1]).ask('log')"
    marker = secrets.token_hex(16)
    environment = {**os.environ, MARKER_NAME: marker}
    asking = subprocess.Popen([sys.executable, "-c", code, repo], env=environment)
    try:
        hanging = _first_child(asking.pid)
    finally:
        asking.kill()
        asking.wait()
    assert end_leftovers(Leftovers(markers=frozenset({marker})), grace_s=1.0).left == 0
    assert not psutil.pid_exists(hanging.pid) or hanging.status() == psutil.STATUS_ZOMBIE


def _first_child(pid: int) -> psutil.Process:
    """Wait for a program that the process `pid` has started, and return it."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for child in psutil.Process(pid).children():
            with contextlib.suppress(psutil.Error):
                if child.name() == "git":
                    return child
        time.sleep(0.01)
    raise AssertionError("no git was started")


def test_an_answer_too_long_to_keep_is_told_and_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repository(tmp_path / "repo")
    monkeypatch.setattr(trusted_git, "_OUTPUT_MAX_BYTES", 8)
    with pytest.raises(CouldNotCheck, match="printed 41 bytes"):
        TrustedGit(str(repo)).ask("rev-parse", "HEAD")


def test_a_program_that_cannot_be_started_directly_is_an_outcome(tmp_path: Path) -> None:
    spec = ProcessSpec(argv=("none",), cwd="/", env={"PATH": str(tmp_path)}, timeout_s=5)
    assert _direct.run_directly(spec).state is EndState.NOT_STARTED
    odd = tmp_path / "odd"
    odd.write_bytes(b"no program\n")
    odd.chmod(0o755)
    spec = ProcessSpec(argv=(str(odd),), cwd="/", env={}, timeout_s=5)
    outcome = _direct.run_directly(spec)
    assert outcome.state is EndState.NOT_STARTED
    assert "Exec format" in outcome.why


def test_asking_on_linux_loads_no_gitpython_and_leaves_no_child(tmp_path: Path) -> None:
    _need_descriptors()
    repo = make_repository(tmp_path / "repo")
    code = (
        "import os, sys\n"
        "from runagent.git.repository import admit_repository, choose_base\n"
        "repository = admit_repository(sys.argv[1])\n"
        "print(choose_base(repository, None).ref, 'git' in sys.modules)\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read().split())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, repo], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "master False\n[]\n"


class _Counting(TrustedGit):
    """Counts what it is asked."""

    def __init__(self, directory: str) -> None:
        super().__init__(directory)
        self.asked: list[str] = []

    def ask(self, *arguments: str) -> Answer:
        self.asked.append(arguments[0])
        return super().ask(*arguments)


def test_the_usual_branch_and_free_names_take_two_questions_each(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    admitted = admit_repository(str(repo))
    counting = _Counting(str(repo))
    repository = type(admitted)(admitted.main, admitted.common_dir, counting)
    assert choose_base(repository, None).ref == "master"
    assert counting.asked == ["show-ref", "rev-parse"]
    counting.asked.clear()
    refuse_taken_names(counting, "wt/j/t", str(tmp_path / "none"))
    assert counting.asked == ["for-each-ref", "show-ref"]


def test_a_ref_at_the_jobs_place_that_cannot_be_read_is_no_free_name(tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "repo")
    broken = repo / ".git" / "refs" / "heads" / "wt" / "j" / "t"
    broken.parent.mkdir(parents=True)
    broken.write_text("no id\n")
    with pytest.raises(CouldNotCheck, match="cannot be read"):
        refuse_taken_names(TrustedGit(str(repo)), "wt/j/t", str(tmp_path / "none"))
