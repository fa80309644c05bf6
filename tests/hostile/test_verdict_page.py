"""The table of docs/verdict.md is what really happens, line by line; and the list of tricks says
of each what the host must report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tricks import TRICKS, Trick
from tests.support.verdict_rows import play_for_real, row, rows_of_page

_ADVICE = "write the table anew with `make verdict-table`, and read what changed"
_NAMES = [trick.name for trick in TRICKS]


@pytest.mark.parametrize("trick", TRICKS, ids=_NAMES)
def test_what_a_trick_comes_to_is_what_the_page_says(trick: Trick, tmp_path: Path) -> None:
    played = play_for_real(trick, tmp_path)
    codes = {risk.code for risk in played.judgement.risks}
    assert set(played.evidence.agent_changed) == trick.changed
    assert trick.codes <= codes
    assert not played.host_fired, "a program of the agent's choice ran in a process of the host"
    assert trick.fires == (played.plain_fired or played.plain == "(hangs)"), "the control"
    shown = [path for path in trick.changed if path.decode("latin-1") in played.plain]
    if trick.changed:
        assert trick.hides == (not shown), f"the control: {played.plain}"
    if codes - {"validator_wrote"} or not trick.changed:
        assert played.judgement.needs_human_review
    assert row(trick, played) in rows_of_page(), _ADVICE


def test_the_page_has_one_line_for_each_trick() -> None:
    rows = rows_of_page()
    assert [line.split(" | ")[0].removeprefix("| ") for line in rows] == [
        trick.does for trick in TRICKS
    ], _ADVICE
    assert len(set(_NAMES)) == len(_NAMES)
