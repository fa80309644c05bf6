"""What four real CLIs printed, changed and exited with, through the whole product: one table.

The table is `tests/golden/replay.json`, and docs/agents.md shows it to people. Both are written by
`python tests/golden/write_replay.py`, and looked at before they are committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import Broker, running_broker
from tests.support.replay import TABLE, names, replay_all, table_lines

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path / "broker") as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_every_recording_ends_as_the_table_says(tmp_path: Path, broker: Broker) -> None:
    expected = json.loads(TABLE.read_text(encoding="utf-8"))
    assert [row["recording"] for row in expected] == names()
    found = replay_all(tmp_path, broker)
    assert [row for row in found if row not in expected] == []
    assert found == expected


def test_no_row_calls_what_was_refused_limited_or_cut_off_a_clean_end() -> None:
    for row in json.loads(TABLE.read_text(encoding="utf-8")):
        is_clean = row["status"] == "completed" and not row["review"]
        assert not (is_clean and row["reason"]), row
        if row["status"] in ("rate_limited", "approval_required"):
            assert row["review"], row
            assert row["reason"], row


def test_the_page_shows_the_table() -> None:
    rows = json.loads(TABLE.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in table_lines(rows) if line not in page] == []
