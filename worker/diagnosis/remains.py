"""What jobs left on this host: ends that nobody wrote or delivered, processes, prompts, commits in
a sandbox, locks, and repositories that were set aside."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from runagent.sandbox.box_folder import keeps_commits
from worker.diagnosis.finding import Finding, Machine, fails, holds, warns
from worker.journal.journal import Journal
from worker.journal.owners import is_alive, is_here, is_running
from worker.journal.records import JobRecord

_NAMED_MAX: Final = 5
_PROMPT: Final = "prompt"  # what runagent.launch stages in a job's folder
_LOCKS: Final = ("index.lock", "HEAD.lock", "packed-refs.lock", "config.lock")
_LOCK_IS_OLD_S: Final = 600  # no git command of ours takes that long


def look_at_remains(
    journal: Journal, database: sqlite3.Connection, machine: Machine
) -> Iterator[Finding]:
    """Look at what stands in a sound journal; `database` is the same file, for reading only."""
    yield from _jobs(journal)
    yield _processes(journal, database)
    yield from _leftovers(journal, machine)
    yield _commits(journal, machine)
    yield from _locks(database, machine)
    yield _set_aside(journal)


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
    runs = machine.host.runs_dir
    staged = [
        path
        for path in sorted(runs.glob(f"*/{_PROMPT}"))
        if _is_over(journal.find(path.parent.name))
    ]
    if staged:
        what = f"staged prompts of jobs that have ended: {_some(str(path) for path in staged)}"
        yield fails("runtime folder", what, f"rm {' '.join(str(path) for path in staged)}")
    else:
        count = sum(1 for _ in runs.glob("*")) if runs.is_dir() else 0
        yield holds(
            "runtime folder", f"{count} jobs' output is kept, and no prompt of an ended one"
        )


def _commits(journal: Journal, machine: Machine) -> Finding:
    """Look for commits in boxes that did not come home when their job ended."""
    runs = machine.host.runs_dir
    kept = [str(run / "box") for run in sorted(runs.glob("*")) if keeps_commits(str(run))]
    ended = [path for path in kept if _has_ended(journal.find(Path(path).parent.name))]
    if ended:
        what = f"were not taken out of the sandbox and are kept: {_some(ended)}"
        return warns("commits", what, "the job's result says why; remove the folder when done")
    return holds("commits", "what was committed in a sandbox is in its repository")


def _has_ended(record: JobRecord | None) -> bool:
    return record is None or record.result is not None


def _processes(journal: Journal, database: sqlite3.Connection) -> Finding:
    """Look for recorded processes that live on though their job has no process that awaits them."""
    query = "SELECT job, pid, started FROM processes WHERE ended_at IS NULL AND pid > 0"
    living = [
        f"{pid} (job {job})"
        for job, pid, started in database.execute(query).fetchall()
        if _is_over(record := journal.find(job))
        and (record is None or is_here(record.owner))
        and is_running(pid, started)
    ]
    if living:
        remedy = "start the listener: it ends them"
        return fails("processes", f"live on after their job: {_some(living)}", remedy)
    return holds("processes", "none of a job that is over")


def _set_aside(journal: Journal) -> Finding:
    aside = [record.repo for record in journal.repositories.all() if record.is_quarantined]
    if aside:
        remedy = "look at what changed there, then: fleet-dispatch repo trust PATH"
        return warns("repositories", f"set aside after a job: {_some(aside)}", remedy)
    return holds("repositories", "none is set aside")


def _is_over(record: JobRecord | None) -> bool:
    return record is None or record.result is not None or is_alive(record.owner) is False


def _locks(database: sqlite3.Connection, machine: Machine) -> Iterator[Finding]:
    """Look for git's lock files that nobody can be holding any more, in repositories used here."""
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


def _some(items: Iterable[str]) -> str:
    listed = list(items)
    more = f" and {len(listed) - _NAMED_MAX} more" if len(listed) > _NAMED_MAX else ""
    return ", ".join(listed[:_NAMED_MAX]) + more
