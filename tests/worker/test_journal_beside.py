"""Two journals open in one process: neither takes from the other what holds its log in place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from contracts.clock import ManualClock
from tests.worker.test_journal import new_job, open_journal

# As `jobs --local` does: the last one that closes the file takes the log away.
_LOOK_AND_CLOSE = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
print(database.execute("SELECT count(*) FROM jobs").fetchone()[0])
database.close()
"""


def _look_and_close(path: Path) -> str:
    words = [sys.executable, "-c", _LOOK_AND_CLOSE, str(path)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_second_journal_of_a_process_gives_up_no_lock_of_the_first(tmp_path: Path) -> None:
    journal = open_journal(tmp_path, ManualClock())
    assert journal.claim(new_job()) is None
    second = open_journal(tmp_path, ManualClock())
    path = tmp_path / "state" / "journal.sqlite3"
    assert _look_and_close(path) == "1\n"
    assert journal.claim(new_job()) is None
    assert _look_and_close(path) == "2\n"
    second.close()
    journal.close()
