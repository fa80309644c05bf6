"""What a journal counts against its witness, and the moment before which no job is accepted.

A journal that knows less than its witness was lost or restored from an older copy: what was issued
until then may have run already. Pure SQL over one open transaction, and the witness's file.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from worker.journal import queries
from worker.journal.witness import Witness

_CLAIMS: Final = "claims"
_EPOCH: Final = "epoch"


def count_one(database: sqlite3.Connection) -> None:
    """Count one more claim or cancel, which the witness is told of as well."""
    queries.set_number(database, _CLAIMS, queries.number(database, _CLAIMS) + 1)


def epoch_of(database: sqlite3.Connection) -> float:
    """Return the moment before which no issued job is accepted; 0 if nothing was lost."""
    return queries.number(database, _EPOCH)


def refuse_before(database: sqlite3.Connection, moment: float) -> None:
    """Accept no job that was issued before `moment`; an earlier one changes nothing."""
    queries.set_number(database, _EPOCH, max(epoch_of(database), moment))


def check_witness(database: sqlite3.Connection, witness: Witness, now: float) -> None:
    """Set a new epoch when something is missing: now, or right after the newest job that was ever
    claimed, whatever this machine's clock says now.

    One claim may be under way in another process between its commit and its byte, which only ever
    makes the witness the smaller one.
    """
    seen = witness.count()
    if seen > queries.number(database, _CLAIMS):
        refuse_before(database, max(now, witness.newest() + 1.0))
        queries.set_number(database, _CLAIMS, seen)


def complete_witness(database: sqlite3.Connection, witness: Witness) -> None:
    """Give the witness what a crash between commit and byte, or a lost file, left out: as long as
    it knows less than the journal, an older copy could pass for this one.

    Only for the one who holds the host's lease.
    """
    missing = int(queries.number(database, _CLAIMS)) - witness.count()
    if missing > 0:
        witness.add(0, times=missing)
