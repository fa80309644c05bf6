"""The reserve, on real disks: taken in real blocks, given back when the disk is full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contracts import limits
from contracts.clock import SystemClock
from contracts.errors import DiskFull, Unavailable
from contracts.ids import new_job_id
from tests.support.volumes import fill, small_volume
from worker.journal.journal import Journal
from worker.journal.records import NewJob
from worker.reserve import RESERVE_BYTES, Reserve

SIZE = 256 * 1024


def write(path: Path, size: int) -> None:
    path.write_bytes(b"x" * size)


def test_the_room_is_taken_in_blocks_and_privately(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "state")
    assert not reserve.is_held
    assert reserve.hold() and reserve.hold()
    status = reserve.path.stat()
    assert status.st_size == RESERVE_BYTES
    assert status.st_blocks * 512 >= RESERVE_BYTES
    assert status.st_mode & 0o777 == 0o600


def test_room_that_is_not_there_is_not_half_taken(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", megabytes=1) as disk:
        reserve = Reserve(disk, size_bytes=2 * 1024 * 1024)
        assert not reserve.hold()
        assert list(disk.iterdir()) == []
        assert not Reserve(fill(disk).parent / "deeper").hold()


def test_what_must_be_written_gets_the_room_and_it_is_taken_again_later(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", megabytes=2) as disk:
        reserve = Reserve(disk, size_bytes=SIZE)
        assert reserve.hold()
        journal = Journal(disk / "journal.sqlite3", SystemClock())
        filler = fill(disk)
        job = NewJob(jti=new_job_id(), iss="alice", iat=1, facts={"repo": "x" * 100_000})
        with pytest.raises(DiskFull, match="ENOSPC"):
            journal.claim(job)
        assert reserve.is_held, "only who owes something uses it up"
        assert reserve.lend(lambda: journal.claim(job)) is None
        assert not reserve.is_held
        fill(disk, "more")
        assert not reserve.hold()
        filler.unlink()
        assert reserve.hold()
        journal.close()


def test_a_disk_that_stays_full_is_told_and_other_errors_release_nothing(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path, size_bytes=SIZE)

    def full() -> None:
        raise DiskFull("ENOSPC")

    def away() -> None:
        raise Unavailable("locked")

    with pytest.raises(DiskFull):
        reserve.lend(full)
    assert reserve.hold()
    with pytest.raises(Unavailable):
        reserve.lend(away)
    assert reserve.is_held
    with pytest.raises(DiskFull):
        reserve.lend(full)
    assert not reserve.is_held


def test_what_is_owed_is_written_while_another_process_tries_to_take_the_room_again(
    tmp_path: Path,
) -> None:
    """A try that fails must not have used up the last free bytes meanwhile."""
    taker = (
        "import sys; from pathlib import Path; from worker.reserve import Reserve\n"
        "reserve = Reserve(Path(sys.argv[1]))\nprint('ready', flush=True)\n"
        "while not Path(sys.argv[2]).exists(): assert not reserve.hold()\n"
    )
    done = tmp_path / "done"

    def owe(path: Path) -> None:
        try:
            path.write_bytes(b"x" * 200_000)
        except OSError as error:
            raise DiskFull(str(error)) from error

    with small_volume(tmp_path / "disk", megabytes=20) as disk:
        os.truncate(fill(disk), 20 * 2**20 - RESERVE_BYTES + 64 * 1024)
        command = [sys.executable, "-c", taker, str(disk), str(done)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            try:
                for _ in range(300):
                    Reserve(disk).lend(lambda: owe(disk / "owed"))
            finally:
                done.touch()
        assert process.returncode == 0


def test_a_folder_that_cannot_be_written_is_not_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "reserve").symlink_to(tmp_path / "elsewhere")
    assert Reserve(tmp_path, size_bytes=SIZE).hold(), "who writes there next says why"
    assert not (tmp_path / "elsewhere").exists(), "nothing is written through a link"


def test_a_system_without_preallocation_writes_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    reserve = Reserve(tmp_path, size_bytes=SIZE)
    assert reserve.hold()
    assert reserve.path.stat().st_blocks * 512 >= SIZE


def test_a_journal_that_cannot_be_opened_for_want_of_room_says_so(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", megabytes=1) as disk:
        Journal(disk / "journal.sqlite3", SystemClock()).close()
        fill(disk)
        with pytest.raises(DiskFull, match="ENOSPC"):
            Journal(disk / "journal.sqlite3", SystemClock()).instance()
        with pytest.raises(DiskFull, match="ENOSPC"):
            Journal(disk / "other" / "journal.sqlite3", SystemClock())


def test_the_largest_result_there_can_be_fits_into_the_reserve(tmp_path: Path) -> None:
    with small_volume(tmp_path / "disk", megabytes=20) as disk:
        reserve = Reserve(disk)
        assert reserve.hold()
        journal = Journal(disk / "journal.sqlite3", SystemClock())
        job_id = new_job_id()
        journal.claim(NewJob(jti=job_id, iss="alice", iat=1))
        fill(disk)
        result = b'"' * limits.RESULT_MAX_BYTES  # every byte is escaped inside the envelope
        sealed = "x" * (2 * limits.RESULT_MAX_BYTES * 4 // 3 + 8_192)
        assert reserve.lend(lambda: journal.finish(job_id, result, sealed=sealed))
        journal.mark_published(job_id)
        journal.close()
        again = Journal(disk / "journal.sqlite3", SystemClock())
        record = again.find(job_id)
        assert record is not None
        assert (record.result, record.sealed) == (result, sealed)
        again.close()
