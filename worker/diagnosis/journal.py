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
from worker.host_lease import LEASE_KIND
from worker.journal import Journal
from worker.journal_schema import MIGRATIONS
from worker.owners import is_alive

_BUSY_S: Final = 10.0
_NAMED_MAX: Final = 5
_PROMPT: Final = "prompt"  # what runagent.launch stages in a job's folder
_LOCKS: Final = ("index.lock", "HEAD.lock", "packed-refs.lock", "config.lock")
_LOCK_IS_OLD_S: Final = 600  # no git command of ours takes that long


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
        yield from _jobs(journal)
        yield from _leftovers(journal, machine)
    yield from _locks(path, machine)
    yield from _lease(path, machine)


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


def _jobs(journal: Journal) -> Iterator[Finding]:
    lost = [record.jti for record in journal.orphans()]
    if lost:
        remedy = "start the listener: it ends them as failed, and keeps and names their work"
        yield fails("orphans", f"their processes are gone: {_some(lost)}", remedy)
    else:
        yield holds("orphans", "no job has lost its process")
    owed = [record.jti for record in journal.unpublished()]
    if owed:
        remedy = "start the listener, and the broker: they are delivered then"
        yield fails("outbox", f"results that were not delivered yet: {_some(owed)}", remedy)
    else:
        yield holds("outbox", "every result was delivered")


def _leftovers(journal: Journal, machine: Machine) -> Iterator[Finding]:
    """Look for prompts that stayed behind in the folders of jobs that have ended."""
    runs = machine.host.state_dir / "runs"
    staged = [path for path in sorted(runs.glob(f"*/{_PROMPT}")) if _has_ended(journal, path)]
    if staged:
        what = f"staged prompts of jobs that have ended: {_some(str(path) for path in staged)}"
        yield fails("runtime folder", what, f"rm {' '.join(str(path) for path in staged)}")
    else:
        count = sum(1 for _ in runs.glob("*")) if runs.is_dir() else 0
        yield holds(
            "runtime folder", f"{count} jobs' output is kept, and no prompt of an ended one"
        )


def _has_ended(journal: Journal, prompt: Path) -> bool:
    record = journal.find(prompt.parent.name)
    return record is None or record.result is not None or is_alive(record.owner) is False


def _lease(path: Path, machine: Machine) -> Iterator[Finding]:
    with contextlib.closing(_open(path)) as database:
        query = "SELECT owner FROM leases WHERE kind = ? AND key = ?"
        row = database.execute(query, (LEASE_KIND, machine.host.host)).fetchone()
    if row is None:
        yield holds("listener", "none runs now")
        return
    pid = str(row[0]).rsplit(":", 2)[1]
    if is_alive(row[0]) is False:
        what = f"process {pid} ended without closing: by a crash, or a kill"
        yield warns("listener", what, "start it again: it takes over at once")
    else:
        yield holds("listener", f"runs as process {pid}")


def _locks(path: Path, machine: Machine) -> Iterator[Finding]:
    """Look for git's lock files that nobody can be holding any more, in repositories used here."""
    with contextlib.closing(_open(path)) as database:
        query = "SELECT DISTINCT json_extract(facts, '$.repo') FROM jobs"
        repos = [Path(row[0]) for row in database.execute(query) if row[0]]
    now = machine.clock.wall()
    found = [
        lock for repo in repos for name in _LOCKS if _is_old(lock := repo / ".git" / name, now)
    ]
    if found:
        remedy = "look whether a git command runs there; remove them only when none does"
        yield warns("git locks", f"old lock files: {_some(str(path) for path in found)}", remedy)
    else:
        yield holds("git locks", "none is left over in the repositories used here")


def _is_old(lock: Path, now: float) -> bool:
    try:
        return now - lock.lstat().st_mtime > _LOCK_IS_OLD_S
    except OSError:
        return False


def _some(items: Iterator[str] | list[str]) -> str:
    listed = list(items)
    more = f" and {len(listed) - _NAMED_MAX} more" if len(listed) > _NAMED_MAX else ""
    return ", ".join(listed[:_NAMED_MAX]) + more
