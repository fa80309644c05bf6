"""An agent that changes a file and moves none of its times, by what a file system has for its own
tools."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from runagent import _sieve
from tests.support.boxes import Make
from tests.support.repositories import git
from tests.support.unstamped import MOVE_BLOCKS

pytestmark = pytest.mark.linux

_ACT = f"/usr/bin/env python3 -c {shlex.quote(MOVE_BLOCKS)}\n"


@pytest.mark.parametrize("mode", ["bwrap", "landlock"])
def test_a_box_refuses_to_let_blocks_of_two_files_change_places(make: Make, mode: str) -> None:
    """ext4 does it for whoever may write both; the file then reads as zeros, its times as before.
    The number is our filter's: a disk that knows nothing of it has another."""
    bench = make(mode)
    (bench.repo / "a.txt").write_text("a" * 4096)
    git(bench.repo, "add", "-A")
    git(bench.repo, "commit", "-q", "-m", "a block")
    result = bench.act(_ACT)
    assert "REFUSED 95" in bench.said(result)
    assert (Path(result.worktreePath) / "a.txt").read_text() == "a" * 4096


def test_the_filter_is_whole_lines_and_ends_with_a_refusal() -> None:
    data = _sieve.filter_bytes()
    assert len(data) % 8 == 0
    assert int.from_bytes(data[-4:], sys.byteorder) == 0x00050000 | 95
