"""Git obeys the host alone: each trick with git or with files, first against plain git, then
against a whole run of the verb, without a box and in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from runagent.shown_path import display_path
from tests.support.trick import plain_status
from tests.support.tricked_desk import MODES, TrickedDesk, script_worked
from tests.support.tricks import TRICKS, Trick, has_fired

_NOTHING = "(nothing)"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.name)
def test_a_trick_neither_fires_nor_hides_nor_passes_for_clean(
    tmp_path: Path, trick: Trick, mode: str
) -> None:
    desk = TrickedDesk(tmp_path, mode)
    _show_that_it_works(desk, trick)
    before = desk.shared_state()
    done = desk.run(trick.script)
    assert desk.is_silent, "a program of the agent was run by the host"
    result = done.result
    if not result["needs_human_review"]:
        assert result["agent_changed_files"], "clean, and nothing changed"
    if mode == "none":
        assert script_worked(done), done.stderr
        assert set(result["agent_changed_files"]) == {display_path(p)[0] for p in trick.changed}
        assert trick.codes <= done.codes
        assert result["needs_human_review"] or not trick.codes
    elif "git" in result["sandbox"]["enforces"]:
        assert desk.shared_state() == before


def _show_that_it_works(desk: TrickedDesk, trick: Trick) -> None:
    """The control: plain git is fooled by the trick, or runs what it planted."""
    control = desk.control(trick)
    if trick.fires:
        said = plain_status(control.tree)
        assert said == "(hangs)" or has_fired(control.canary)
    elif trick.hides:
        said = plain_status(control.tree)
        shown = {display_path(path)[0] for path in trick.changed}
        assert not any(name in said for name in shown) or said == _NOTHING
