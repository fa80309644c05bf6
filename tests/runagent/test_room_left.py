"""Naming the full disk behind an error."""

from __future__ import annotations

from pathlib import Path

from contracts.errors import CouldNotCheck, DiskFull, Interrupted
from runagent.room_left import full_disks, named_by_disk, risks_of_full_disks
from tests.support.volumes import fill, small_volume


def test_a_full_disk_is_named_with_what_stands_there(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", megabytes=2) as disk:
        places = {"worktrees": str(disk / "not made yet"), "state folder": str(tmp_path)}
        assert full_disks(places) == ()
        assert risks_of_full_disks(places) == ()
        error = CouldNotCheck("git did not answer")
        assert named_by_disk(error, places) is error
        fill(disk)
        (words,) = full_disks(places)
        assert "ENOSPC" in words and "worktrees" in words and str(disk) in words
        (risk,) = risks_of_full_disks(places)
        assert risk.code == "disk_full"
        named = named_by_disk(error, places)
        assert isinstance(named, DiskFull)
        assert "git did not answer" in str(named)
        assert named.__cause__ is error
        stop = Interrupted("stopped on request")
        assert named_by_disk(stop, places) is stop
        assert named_by_disk(named, places) is named
