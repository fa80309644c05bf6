"""What an agent in a box leaves for the host to believe: its word that nothing ran, a git folder of
its own making."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.run_agent import Status
from runagent.process import EndState, ProcessSpec, run, system_runner
from runagent.sandbox.bubblewrap import BoxedRunner
from runagent.sandbox.git_import import sweep
from runagent.sandbox.mounts import Kind, Mount
from tests.support.boxes import Make, knock
from tests.support.repositories import git
from tests.support.tools import require_tool

pytestmark = pytest.mark.linux

WORK = "echo work > new.txt; git add -A; git commit -qm work\n"


def test_an_agent_cannot_say_in_bubblewrap_s_words_that_it_was_never_started(make: Make) -> None:
    """What it did would be taken away as the unused tree of a start that did not happen."""
    bench = make("bwrap")
    result = bench.act("echo work > new.txt; echo 'bwrap: no permission' >&2; exit 1\n")
    assert (result.status, result.exitCode, result.attempts) == (Status.FAILED, 1, 2)
    assert (Path(result.worktreePath) / "new.txt").read_text() == "work\n"


def test_a_validator_cannot_say_in_bubblewrap_s_words_that_it_was_never_started(
    make: Make,
) -> None:
    bench = make("bwrap")
    command = "echo 'bwrap: no permission' >&2; exit 1"
    result = bench.act(WORK, validateCommand=command)
    assert result.tests_attempted == (f"{command} => exit 1",)


def test_the_descriptor_on_which_bubblewrap_tells_is_not_in_the_box(make: Make) -> None:
    bench = make("bwrap")
    look = (
        "for place in self 1; do for each in /proc/$place/fd/*; do\n"
        "[ ${each##*/} -gt 2 ] && readlink $each; done; done; echo LOOKED\n"
    )
    said = bench.said(bench.act(look))
    assert "LOOKED" in said and "pipe:" not in said


# Python runs such a file at every start, without a word in the tree.
_PASSES = """
site=$(python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p "$site"; echo 'import os; os._exit(0)' > "$site/usercustomize.py"
mkdir -p /tmp/left; touch /tmp/left/mark "$TMPDIR/mark" 2>/dev/null
"""


def test_a_validation_is_not_run_in_the_home_that_the_agent_furnished(make: Make) -> None:
    """The control: to the agent's own Python in the same box, every test passes."""
    bench = make("bwrap")
    control = "python3 -c 'raise SystemExit(7)' && echo FOOLED\n"
    result = bench.act(WORK + _PASSES + control, validateCommand="python3 -c 'raise SystemExit(7)'")
    assert "FOOLED" in bench.said(result)
    assert result.status is Status.FAILED
    assert result.tests_attempted == ("python3 -c 'raise SystemExit(7)' => exit 7",)


@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
def test_a_validation_finds_no_temporary_file_of_the_agent(make: Make, mode: str) -> None:
    bench = make(mode)
    left = 'touch "${TMPDIR:-/tmp}/left"; ls "${TMPDIR:-/tmp}"\n'
    result = bench.act(WORK + left, validateCommand='test ! -e "${TMPDIR:-/tmp}/left"')
    assert "left" in bench.said(result)
    assert result.validation.commands[0].state.value == "passed"


MOVED = {
    "objects that lead elsewhere": "mv objects o && ln -s {outside} objects",
    "alternates of its own": (
        "mv objects/info i && mkdir objects/info && echo {outside} > objects/info/alternates"
    ),
    "refs that lead everywhere": "mv refs r && ln -s / refs",
    "packed refs without an end": (
        "git pack-refs --all; rm -f packed-refs; truncate -s 1T packed-refs"
    ),
}


@pytest.mark.parametrize("name", MOVED)
def test_a_git_folder_rebuilt_in_the_box_leads_the_host_nowhere(make: Make, name: str) -> None:
    """The host reads it afterwards, and clears it of what is no file."""
    bench = make("bwrap")
    (bench.outside / "link").symlink_to("/etc/hostname")
    act = MOVED[name].format(outside=bench.outside)
    result = bench.act(WORK + f'cd "$(git rev-parse --git-common-dir)"\n{act}; true\n')
    assert os.listdir(bench.outside) == ["link"]
    assert result.changed_files == ("new.txt",)
    common = bench.runtime_dir(result.jobId) / "box" / "git" / "objects"
    assert not common.is_symlink()
    assert git(bench.repo, "fsck", "--strict") == ""
    assert git(bench.repo, "for-each-ref", f"refs/heads/{result.branch}")


def test_sweeping_follows_no_link(tmp_path: Path) -> None:
    outside, objects = tmp_path / "outside", tmp_path / "objects"
    outside.mkdir()
    (outside / "link").symlink_to("/etc/hostname")
    objects.symlink_to(outside)
    sweep(str(objects))
    assert (outside / "link").is_symlink()
    objects.unlink()
    (objects / "aa").mkdir(parents=True)
    os.mkfifo(objects / "aa" / "pipe")
    (objects / "bb").symlink_to(outside)
    sweep(str(objects))
    assert sorted(os.listdir(objects)) == ["aa"]
    assert os.listdir(objects / "aa") == []
    assert (outside / "link").is_symlink()


def test_a_box_that_cannot_be_built_starts_nothing_and_says_why(tmp_path: Path) -> None:
    require_tool("bwrap")
    mounts = [Mount(Kind.READ_ONLY, "/tmp", str(tmp_path / "gone"))]
    runner = BoxedRunner(system_runner(), "/usr/bin/bwrap", mounts, str(tmp_path))
    spec = ProcessSpec(argv=("/bin/true",), cwd="/", env={}, timeout_s=60)
    outcome = run(runner, spec)
    assert (outcome.state, outcome.exit_code) == (EndState.NOT_STARTED, None)
    assert outcome.why.startswith("the sandbox could not be built (bwrap: ")


def test_it_reaches_no_socket_that_somebody_listens_on_in_the_home(make: Make) -> None:
    """A master of ssh connections, or an agent of keys that only a settings file names."""
    for mode in ("none", "bwrap"):
        bench = make(mode)
        places = (".ssh/sockets/host", ".1password/agent.sock")
        with contextlib.ExitStack() as stack:
            doors = [stack.enter_context(bound(bench.home / place)) for place in places]
            acts = "".join(f"if {knock(door)}; then echo REACHED; fi\n" for door in doors)
            said = bench.said(bench.act(acts))
        assert said.count("REACHED") == (2 if mode == "none" else 0), said


@contextlib.contextmanager
def bound(path: Path) -> Iterator[Path]:
    """Listen at `path` under its whole name, as servers do."""
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(path))
        door.listen()
        yield path


def test_it_cannot_make_a_cache_of_programs_that_its_owner_does_not_have(make: Make) -> None:
    act = "mkdir -p $HOME/.cache/pre-commit; echo x > $HOME/.cache/pre-commit/db.db && echo MADE\n"
    for mode in ("none", "bwrap"):
        bench = make(mode)
        said = bench.said(bench.act(act))
        assert ("MADE" in said) is (mode == "none")


def test_root_makes_no_disk_in_its_worktree(make: Make) -> None:
    """Through one it would read and write every file of the machine."""
    for mode in ("landlock", "bwrap"):
        bench = make(mode)
        said = bench.said(bench.act("mknod disk b 7 0 && echo MADE; mknod pipe p && echo PIPE\n"))
        assert "MADE" not in said and "PIPE" in said
