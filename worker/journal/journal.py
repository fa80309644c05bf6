"""The journal of a host: what it claimed, what became of it, and what it still owes its senders.

SQLite in WAL with full sync; several processes write. A claim is committed before anything runs,
so a message that comes again starts nothing. The first result is the only one: nothing changes a
job that has ended, and nobody but its owner writes to one that has not. Holds no prompt, no key.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from contracts.clock import Clock
from contracts.errors import EnvelopeRefused, Unavailable
from worker.journal import epoch, queries
from worker.journal.asked import AskedNonces
from worker.journal.cancels import Cancels
from worker.journal.leases import Leases
from worker.journal.owed import read_owed
from worker.journal.owners import is_alive, this_process
from worker.journal.processes import Processes
from worker.journal.records import JobRecord, NewJob, Transition
from worker.journal.repo_trust import JournalRepoTrust
from worker.journal.retention import forget_old
from worker.journal.schema import JobState
from worker.journal.spares import JournalSpares
from worker.journal.store import JournalFile
from worker.journal.trees import JournalTrees
from worker.journal.witness import Witness

_WHY_MAX_CHARS: Final = 500


class Journal:
    """One open journal; safe to share between threads. Every method may raise Unavailable (disk
    full, read-only, locked too long) or CouldNotCheck (the file is not a sound journal)."""

    def __init__(
        self, path: str | Path, clock: Clock, *, witness: str | Path | None = None, owner: str = ""
    ) -> None:
        """Open or create the journal at `path` (0600 in a folder 0700).

        `witness` is a file in another folder that counts claims. A journal that knows fewer was
        lost or restored: every job issued before this moment is refused, for it may have run. Jobs
        are claimed and written to in the name of `owner`: a run's listener, or this process.
        """
        self._clock = clock
        self.owner = owner or this_process()
        self._served: tuple[str, str] | None = None  # the lease that this owner must hold
        self._witness = None if witness is None else Witness(Path(witness))
        self._file = JournalFile(Path(path))
        self.leases = Leases(self._file, clock)
        self.trees = JournalTrees(self._file, clock, self.leases)
        self.spares = JournalSpares(self._file, clock)
        self.repositories = JournalRepoTrust(self._file, clock)
        self.processes = Processes(self._file, clock)
        self.cancels = Cancels(self._file, clock, self._witness)
        self.asked = AskedNonces(self._file, clock)
        if self._witness is not None:
            with self._file.writing() as database:
                epoch.check_witness(database, self._witness, clock.wall())

    def close(self) -> None:
        """Close the file; nothing of the journal may be used afterwards."""
        self._file.close()

    def require_lease(self, kind: str, key: str) -> None:
        """From here on claim and write only while this owner holds that lease: a listener that was
        thought dead and goes on must not write beside the one that took over."""
        self._served = (kind, key)
        if self._witness is not None:
            with self._file.writing() as database:
                epoch.complete_witness(database, self._witness)

    def claim(self, job: NewJob) -> JobRecord | None:
        """Claim a job for this host, committed on disk when this returns.

        Returns None when the job is ours to start, else the earlier record of the same id: then
        it must not be started. Raises EnvelopeRefused (code `before_epoch`) for a job issued
        before the journal's epoch, Unavailable when another process took this one's place.
        """
        now = self._clock.wall()
        with self._file.writing() as database:
            earlier = queries.find(database, job.jti)
            if earlier is not None:
                return earlier
            if not self._holds_its_lease(database):
                raise Unavailable("another listener of this host has taken over")
            if job.iat is not None and job.iat < epoch.epoch_of(database):
                raise EnvelopeRefused("issued before this host's journal", code="before_epoch")
            facts = dict(job.facts) if job.iat is None else {**job.facts, "iat": str(job.iat)}
            columns = (job.jti, job.iss, job.kind, job.lane, job.aud, job.job_sha256, job.exp)
            database.execute(
                "INSERT INTO jobs (jti, iss, kind, lane, aud, job_sha256, exp, claimed_at, owner,"
                " facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*columns, now, self.owner, json.dumps(facts)),
            )
            self._add(database, job.jti, 0, JobState.CLAIMED, "")
            if self._witness is not None:
                epoch.count_one(database)
        if self._witness is not None:
            self._witness.add(job.iat or 0)
        return None

    def record(
        self, job_id: str, state: JobState, *, attempt: int = 0, why: str = "", worktree: str = ""
    ) -> bool:
        """Write one transition; say whether it was written: a job that has ended takes none, and
        one that a later process took over takes none from the earlier one."""
        with self._file.writing() as database:
            if not self._may_write(database, job_id):
                return False
            self._add(database, job_id, attempt, state, why)
            if worktree:
                database.execute("UPDATE jobs SET worktree = ? WHERE jti = ?", (worktree, job_id))
        return True

    def finish(
        self, job_id: str, result: bytes, *, sealed: str | None = None, why: str = ""
    ) -> bool:
        """Keep the result and its signed envelope; say whether it is the first, which holds, and
        the job's owner's."""
        with self._file.writing() as database:
            if not self._may_write(database, job_id):
                return False
            database.execute(
                "UPDATE jobs SET result = ?, sealed = ? WHERE jti = ?", (result, sealed, job_id)
            )
            row = database.execute(
                "SELECT max(attempt) FROM transitions WHERE job = ?", (job_id,)
            ).fetchone()
            self._add(database, job_id, row[0] or 0, JobState.DONE, why)
        return True

    def keep_sealed(self, job_id: str, sealed: str) -> str:
        """Keep the signed envelope of a result that has none yet; return the one that holds."""
        with self._file.writing() as database:
            database.execute(
                "UPDATE jobs SET sealed = ? WHERE jti = ? AND sealed IS NULL AND result NOT NULL",
                (sealed, job_id),
            )
            row = database.execute("SELECT sealed FROM jobs WHERE jti = ?", (job_id,)).fetchone()
        return str(row["sealed"])

    def mark_published(self, *job_ids: str) -> list[str]:
        """Note in one commit that these jobs' senders hold their results; return which are news."""
        news: list[str] = []
        query = "UPDATE jobs SET published_at = ? WHERE jti = ? AND published_at IS NULL"
        with self._file.writing() as database:
            for job_id in job_ids:
                if database.execute(query, (self._clock.wall(), job_id)).rowcount:
                    self._add(database, job_id, 0, JobState.PUBLISHED, "")
                    news.append(job_id)
        return news

    def note_queued(self, job_id: str) -> bool:
        """Note that a job which came through another door came over a queue as well, so that its
        result goes there, too; say whether that is news."""
        with self._file.writing() as database:
            return queries.note_queued(database, job_id)

    def unpublished(self, *, besides: Sequence[str] = ()) -> Iterator[JobRecord]:
        """Yield queued jobs whose result was not delivered yet, oldest first, without `besides`."""
        return read_owed(self._file, besides)

    def orphans(self, host: str = "") -> list[JobRecord]:
        """Return the jobs that began here and have no end though their process is gone.

        Those of a listener of `host` that cannot be seen from here (an earlier container) count as
        well: to be asked only by the one who holds that host's lease, which the other has lost.
        """
        with self._file.reading() as database:
            records = queries.without_end(database)
        waiting = [record for record in records if record.state is not JobState.REFUSED]
        return [record for record in waiting if self._is_orphan(record, host)]

    def adopt(self, record: JobRecord) -> bool:
        """Take a job without an end over from the process that `record` names as its owner: from
        here on that one writes nothing to it. Says whether it is ours now."""
        with self._file.writing() as database:
            if not self._holds_its_lease(database):
                return False
            changed = database.execute(
                "UPDATE jobs SET owner = ? WHERE jti = ? AND owner = ? AND result IS NULL",
                (self.owner, record.jti, record.owner),
            )
        return changed.rowcount > 0

    def find(self, job_id: str) -> JobRecord | None:
        """Return the record of a job, or None."""
        with self._file.reading() as database:
            return queries.find(database, job_id)

    def ends(self, job_ids: Sequence[str]) -> dict[str, bool]:
        """Return of each known job whether it has a result; at most some hundred ids at once."""
        with self._file.reading() as database:
            return queries.ends(database, job_ids)

    def recent(self, limit: int) -> list[JobRecord]:
        """Return at most `limit` of the newest jobs, the newest first."""
        with self._file.reading() as database:
            return queries.recent(database, limit)

    def history(self, job_id: str) -> list[Transition]:
        """Return the transitions of a job in the order in which they were written."""
        with self._file.reading() as database:
            return queries.history(database, job_id)

    def epoch(self) -> float:
        """Return the moment before which no issued job is accepted; 0 if nothing was lost."""
        with self._file.reading() as database:
            return epoch.epoch_of(database)

    def instance(self) -> str:
        """Return what tells this journal from every other one, of a namesake's machine too."""
        with self._file.writing() as database:
            return queries.instance(database)

    def prune(self, stopped: Callable[[], bool] = lambda: False) -> int:
        """Forget what nobody may ask for any more, until `stopped()`; return how many jobs."""
        return forget_old(self._file, self._clock, stopped)

    def _is_orphan(self, record: JobRecord, host: str) -> bool:
        alive = is_alive(record.owner)
        unseen = alive is None and bool(host) and record.facts.get("host") == host
        return record.owner != self.owner and (alive is False or unseen)

    def _may_write(self, database: sqlite3.Connection, job_id: str) -> bool:
        query = "SELECT 1 FROM jobs WHERE jti = ? AND result IS NULL AND owner = ?"
        found = database.execute(query, (job_id, self.owner)).fetchone()
        return found is not None and self._holds_its_lease(database)

    def _holds_its_lease(self, database: sqlite3.Connection) -> bool:
        if self._served is None:
            return True
        query = "SELECT owner FROM leases WHERE kind = ? AND key = ?"
        row = database.execute(query, self._served).fetchone()
        return row is not None and row["owner"] == self.owner

    def _add(
        self, database: sqlite3.Connection, job_id: str, attempt: int, state: JobState, why: str
    ) -> None:
        database.execute(
            "INSERT INTO transitions (job, attempt, state, at, pid, why) VALUES (?, ?, ?, ?, ?, ?)",
            (job_id, attempt, state, self._clock.wall(), os.getpid(), why[:_WHY_MAX_CHARS]),
        )
