"""An agent against the spare trees of its host: it tries to see them and to put something into one,
so that the next job starts from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from runagent.deadline import Deadline
from runagent.files.tree_proof import proof_of
from tests.support.boxes import BoxBench, Make
from tests.support.repositories import git, prepare
from tests.support.spares import OneSpare

pytestmark = pytest.mark.linux

# what an agent tries on the spare's folder, as a shell command that succeeds when it could
ACTS = {
    "list it": "ls {spare}/tree",
    "list the shelf": "ls {spare}/..",
    "read a file": "cat {spare}/tree/README.md",
    "read its index": "wc -c {spare}/shadow/index",
    "write a file": "echo poison >> {spare}/tree/README.md",
    "write and restore the time": (
        "t=$(stat -c %y {spare}/tree/README.md) && echo poison > {spare}/tree/README.md && "
        'touch -d "$t" {spare}/tree/README.md'
    ),
    "add a file": "echo poison > {spare}/tree/conftest.py",
    "add one that git ignores": "echo poison > {spare}/tree/x.ignored",
    "let one be run": "chmod +x {spare}/tree/README.md",
    "keep a second name of one": "ln {spare}/tree/README.md kept",
    "remove a file": "rm {spare}/tree/README.md",
    "put a link in its place": "rm -r {spare}/tree && ln -s $PWD {spare}/tree",
    "put its own tree in its place": "mv {spare}/tree {spare}/t && mkdir {spare}/tree",
    "change its index": "echo poison > {spare}/shadow/index",
    "take the whole shelf away": "mv {spare} {spare}.away",
}
_HARMLESS = ("list it", "list the shelf", "read a file", "read its index")
# Landlock stops neither a change of mode nor the listing of names, which are the repository's own;
# the proof drops the spare whose mode was changed.
_LISTED = ("list it", "list the shelf")
_CHMOD = "let one be run"


def spare_of(bench: BoxBench) -> OneSpare:
    """Return a spare where a host keeps it: in its state folder."""
    (bench.repo / ".gitignore").write_text("*.ignored\n")
    git(bench.repo, "add", "-A")
    git(bench.repo, "commit", "-q", "-m", "rules")
    return OneSpare(bench.repo, shelf=bench.folder / "state" / "spares")


def attack(bench: BoxBench, spare: OneSpare, act: str) -> bool:
    """Say whether an agent could do `act`."""
    command = ACTS[act].format(spare=spare.spare.folder)
    result = bench.act(f"if ( {command} ); then echo IT-WORKED; fi\n")
    return "IT-WORKED" in bench.said(result)


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
def test_an_agent_in_a_box_neither_reads_nor_changes_a_spare(
    make: Make, mode: str, act: str
) -> None:
    bench = make(mode)
    spare = spare_of(bench)
    worked = attack(bench, spare, act)
    assert worked is (mode == "landlock" and act in (*_LISTED, _CHMOD))
    is_sound = not worked or act in _LISTED
    assert (proof_of(spare.spare.tree, Deadline(60.0)) == spare.spare.proof) is is_sound
    worktree = prepare(bench.repo, bench.folder / "later", spares=spare)
    assert spare.became(worktree.path) is is_sound
    assert git(Path(worktree.path), "status", "--porcelain", "--ignored") == ""


@pytest.mark.parametrize("act", ACTS)
def test_a_spare_that_an_agent_without_a_box_touched_is_never_handed_over(
    make: Make, act: str
) -> None:
    bench = make("none")
    spare = spare_of(bench)
    assert attack(bench, spare, act), "without a box it works"
    tree = Path(prepare(bench.repo, bench.folder / "later", spares=spare).path)
    assert git(tree, "status", "--porcelain", "--ignored") == ""
    assert "poison" not in "".join(path.read_text() for path in tree.iterdir() if path.is_file())
    assert spare.became(str(tree)) is (act in _HARMLESS)


@pytest.mark.parametrize("act", ["add a file", "add one that git ignores", "let one be run"])
def test_without_the_proof_it_would_have_been(make: Make, act: str) -> None:
    bench = make("none")
    spare = spare_of(bench)
    assert attack(bench, spare, act)
    spare.believe(proof_of(spare.spare.tree, Deadline(60.0)))
    tree = Path(prepare(bench.repo, bench.folder / "later", spares=spare).path)
    assert spare.became(str(tree))
    assert git(tree, "status", "--porcelain", "--ignored") != ""
