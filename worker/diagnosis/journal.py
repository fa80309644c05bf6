"""The journal: is the file sound, and does it show jobs that nobody ends or delivers.

Opens the file for reading only; a journal that is not there yet is no fault.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from worker.diagnosis.finding import Finding, Machine, fails, holds, warns
from worker.diagnosis.remains import look_at_remains
from worker.journal.host_lease import LEASE_KIND
from worker.journal.journal import Journal
from worker.journal.owners import is_alive, machine_of, pid_of
from worker.journal.schema import MIGRATIONS

_BUSY_S: Final = 10.0


def check_journal(machine: Machine) -> Iterator[Finding]:
    """Look at the file, then at what it says. Raises what opening a journal raises."""
    path = machine.host.journal_file
    if not path.exists():
        if machine.host.witness_file.exists():
            what = "is gone though jobs were claimed here: older jobs are refused from now on"
            yield warns("journal", what, "restore it only if nothing ran since")
        else:
            yield holds("journal", "none yet: nothing was ever run here")
        return
    broken = _look_at_file(path)
    if broken is not None:
        yield broken
        return
    with contextlib.closing(Journal(path, machine.clock)) as journal:
        yield _epoch(journal)
        with contextlib.closing(_open(path)) as database:
            yield from look_at_remains(journal, database, machine)
            yield _lease(database, machine)


def _look_at_file(path: Path) -> Finding | None:
    """Return what is wrong with the file, None when it is sound."""
    remedy = "move it aside; jobs issued before the new one are then refused"
    try:
        with contextlib.closing(_open(path)) as database:
            said = str(database.execute("PRAGMA quick_check(1)").fetchone()[0])
            version = int(database.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError as error:
        return fails("journal", f"{path} cannot be read: {error}", remedy)
    if said != "ok":
        return fails("journal", f"{path} is damaged: {said}", remedy)
    if version > len(MIGRATIONS):
        return fails("journal", f"{path} was written by a newer version", "run that version")
    return None


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)


def _epoch(journal: Journal) -> Finding:
    epoch = journal.epoch()
    if not epoch:
        return holds("journal", "is sound")
    at = datetime.fromtimestamp(epoch, UTC).isoformat(timespec="seconds")
    what = f"is sound; jobs issued before {at} are refused (it was lost, restored or pruned)"
    return holds("journal", what)


def _lease(database: sqlite3.Connection, machine: Machine) -> Finding:
    query = "SELECT owner FROM leases WHERE kind = ? AND key = ?"
    row = database.execute(query, (LEASE_KIND, machine.host.host)).fetchone()
    if row is None:
        return holds("listener", "none runs now")
    who = f"process {pid_of(row[0])}"
    is_running = is_alive(row[0])
    if is_running is None:
        what = f"{who} on {machine_of(row[0])} has the lease, and cannot be seen from here"
        return warns("listener", what, "look there; a listener here waits until its time is out")
    if not is_running:
        what = f"{who} ended without closing: by a crash, or a kill"
        return warns("listener", what, "start it again: it takes over at once")
    return holds("listener", f"runs as {who}")
