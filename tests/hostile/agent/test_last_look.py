"""When the look after the agent is the last one too: nothing was started after it, and the box let
nothing of the agent live on. Everywhere else the tree is looked at once more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.boxes import BoxBench

Make = Callable[..., BoxBench]


class _WritesAtTheLastLook:
    """Somebody who writes into the worktree as the last look begins."""

    def __init__(self, agents: Path) -> None:
        self._agents = agents
        self._looks = 0

    def phase(self, name: str) -> None:
        self._looks += name == "looking"
        if name == "looking" and self._looks > 1:
            (tree,) = self._agents.iterdir()
            (tree / "late.txt").write_text("late\n")

    def agent_line(self, text: str) -> None:
        del text


def _changed(bench: BoxBench, act: str = "", **fields: object) -> set[str]:
    watch = _WritesAtTheLastLook(bench.folder / "repo-agents")
    result = bench.act(f"echo x >> a.txt\n{act}", ports={"watch": watch}, **fields)
    assert "a.txt" in result.changed_files
    return set(result.changed_files)


@pytest.mark.parametrize("mode", ["none", "landlock"])
def test_where_something_of_an_agent_may_live_on_the_tree_is_looked_at_again(
    make: Make, mode: str
) -> None:
    assert "late.txt" in _changed(make(mode))


def test_after_a_validation_the_tree_is_looked_at_again(make: Make) -> None:
    assert "late.txt" in _changed(make("bwrap"), validateCommand="true")


def test_after_an_agent_that_did_not_end_by_itself_the_tree_is_looked_at_again(make: Make) -> None:
    assert "late.txt" in _changed(make("bwrap"), "sleep 60", timeoutSec=2)


def test_without_a_validation_a_box_that_lets_nothing_live_on_is_looked_into_once(
    make: Make,
) -> None:
    assert "late.txt" not in _changed(make("bwrap"))


@pytest.mark.parametrize("mode", ["none", "bwrap"])
def test_what_an_agent_left_running_to_write_later_is_not_taken_for_nothing(
    make: Make, mode: str
) -> None:
    """It ends with the agent, so that what the last look saw is what stays."""
    bench = make(mode)
    result = bench.act("(setsid sh -c 'sleep 2; echo late > late.txt' &)\necho x >> a.txt")
    left = {path.name for path in Path(result.worktreePath).iterdir()}
    assert ("late.txt" in left) is ("late.txt" in result.changed_files)
    assert "a.txt" in result.changed_files
