"""What a run says was changed, where other people's systems said it wrongly: awkward names, new
folders, commits, modes, and a git that fails. Plain git's own answer is the control."""

from __future__ import annotations

import base64
import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.fleet import git, place_program

ODD_NAMES = ["a -> b", "two words", "new\nline", "tab\there", 'quo"te', "back\\slash", "-n", "é中"]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, {"README.md": "# A thing\n", "old.py": "a = 1\nb = 2\nc = 3\n"})


def plain_status(desk: Desk, tree: Path) -> str:
    """Return what plain git says in the worktree."""
    return git(tree, "status", "--porcelain")


def test_every_odd_name_is_reported_with_its_exact_bytes(desk: Desk) -> None:
    desk.agent(f"for name in {ODD_NAMES!r}: Path(name).write_text('x')\nfinish()")
    done = desk.run("--validate-cmd", "true")
    assert sorted(done.result["changed_files"]) == sorted(ODD_NAMES)
    assert done.result["agent_changed_files"] == done.result["changed_files"]
    quoted = plain_status(desk, desk.tree(done))
    assert '"new\\nline"' in quoted, "the control: plain git quotes what it prints for people"


@pytest.mark.parametrize(
    "move",
    ["os.rename('old.py', 'a -> b.py')", "subprocess.run(['git', 'mv', 'old.py', 'a -> b.py'])"],
    ids=["unstaged", "staged"],
)
def test_a_move_is_one_rename_and_its_new_path_alone_is_changed(desk: Desk, move: str) -> None:
    desk.agent(f"{move}\nfinish()")
    done = desk.run("--validate-cmd", "true")
    assert done.result["changed_files"] == ["a -> b.py"]
    assert done.result["renames"] == [{"from": "old.py", "to": "a -> b.py"}]
    assert done.result["needs_human_review"] is False
    if move.startswith("os."):
        shown = plain_status(desk, desk.tree(done))
        assert " D old.py" in shown, "the control: plain git sees a deletion and a new file"


def test_every_file_of_a_new_folder_is_listed_whatever_the_repository_says(desk: Desk) -> None:
    git(desk.repo, "config", "status.showUntrackedFiles", "no")
    desk.agent(
        "Path('new/deep/er').mkdir(parents=True)\n"
        "for name in ('new/a', 'new/deep/b', 'new/deep/er/c'): Path(name).write_text('x')\n"
        "finish()"
    )
    done = desk.run("--validate-cmd", "true")
    assert done.result["changed_files"] == ["new/a", "new/deep/b", "new/deep/er/c"]
    assert plain_status(desk, desk.tree(done)) == "", "the control: plain git sees nothing"
    git(desk.repo, "config", "--unset", "status.showUntrackedFiles")
    assert plain_status(desk, desk.tree(done)) == "?? new/\n", "nor is it told the files"


@pytest.mark.parametrize("leaving", ["", "Path('open.txt').write_text('open')"])
def test_what_the_agent_committed_is_part_of_the_answer(desk: Desk, leaving: str) -> None:
    desk.agent(
        "Path('done.py').write_text('x = 1')\n"
        "who = ['-c', 'user.name=a', '-c', 'user.email=a@example.invalid']\n"
        "subprocess.run(['git', 'add', '-A'], check=True)\n"
        "subprocess.run(['git', *who, 'commit', '-qm', 'work'], check=True)\n"
        f"{leaving}\nfinish()"
    )
    done = desk.run("--validate-cmd", "true")
    assert done.result["changed_files"] == ["done.py", *(["open.txt"] if leaving else [])]
    assert done.result["headCommit"] == git(desk.tree(done), "rev-parse", "HEAD").strip()
    assert done.result["headCommit"] != done.result["baseCommit"]
    assert done.result["needs_human_review"] is False
    assert "done.py" not in plain_status(desk, desk.tree(done)), "the control: it is clean there"


def test_a_change_of_mode_alone_is_reported_whatever_the_repository_says(desk: Desk) -> None:
    git(desk.repo, "config", "core.fileMode", "false")
    desk.agent("os.chmod('old.py', 0o755)\nfinish()")
    done = desk.run("--validate-cmd", "true")
    assert done.result["changed_files"] == ["old.py"]
    assert plain_status(desk, desk.tree(done)) == "", "the control: plain git sees nothing"


# A real git whose look at the tree fails, as on a full disk or with a damaged index.
_FAILING_GIT = """
import os, sys
if "status" in sys.argv[1:] and os.path.exists({switch!r}):
    sys.exit("fatal: unable to read the index")
os.execv({git!r}, [{git!r}, *sys.argv[1:]])
"""


def test_a_look_that_fails_is_a_risk_and_never_an_empty_answer(desk: Desk, tmp_path: Path) -> None:
    switch, real = tmp_path / "fail", shutil.which("git")
    assert real is not None
    place_program(desk.machine.programs, "git", _FAILING_GIT.format(switch=str(switch), git=real))
    desk.machine.sandbox = "none"  # the agent switches the failure on beside its tree
    writing = "Path('new.py').write_text('x')"
    desk.agent(f"{writing}\nfinish()")
    control = desk.run("--validate-cmd", "true")
    assert control.result["changed_files"] == ["new.py"]
    assert control.result["needs_human_review"] is False

    desk.agent(f"{writing}\nPath({str(switch)!r}).touch()\nfinish()")
    done = desk.run("--validate-cmd", "true")

    assert done.codes == {"evidence_incomplete"}
    assert any("unable to read the index" in risk for risk in done.result["known_risks"])
    assert done.result["changed_files"] == ["new.py"], "what was seen without git is still told"
    assert done.result["needs_human_review"] is True


def test_a_worktree_that_is_gone_is_a_risk_and_never_an_empty_answer(desk: Desk) -> None:
    desk.machine.sandbox = "none"  # in a box the folder itself cannot be removed
    desk.agent("import shutil; shutil.rmtree(os.getcwd())\nfinish('All done.')")
    done = desk.run("--validate-cmd", "true")
    assert "evidence_incomplete" in done.codes
    assert done.result["status"] == "failed", "there was no place to validate in"
    assert done.result["needs_human_review"] is True
    assert git(desk.repo, "status", "--porcelain") == ""


def test_a_name_that_is_not_utf_8_leaves_the_result_whole_and_can_be_recovered(desk: Desk) -> None:
    raw = b"caf\xe9/\xff\xfe.txt"
    desk.agent(f"os.makedirs({os.path.dirname(raw)!r})\nopen({raw!r}, 'w').close()\nfinish()")
    done = desk.run("--validate-cmd", "true")
    (shown,) = done.result["changed_files"]
    assert base64.b64decode(done.result["paths_base64"][shown]) == raw
    done.stdout.encode("utf-8")
    assert json.loads(done.stdout) == done.result
    assert os.path.exists(os.path.join(os.fsencode(desk.tree(done)), raw))
