"""Which questions were answered: each is answered once, so that who copied one reads nothing."""

from __future__ import annotations

from typing import Final

from contracts.clock import Clock
from worker.journal import queries
from worker.journal.store import JournalFile

_FORGOTTEN: Final = "asked_until"


class AskedNonces:
    """The nonces in one journal, each until its question has expired."""

    def __init__(self, file: JournalFile, clock: Clock) -> None:
        self._file = file
        self._clock = clock

    def use(self, iss: str, nonce: str, *, until: int) -> bool:
        """Use up a nonce of a sender, on disk when this returns; say whether it was new. `until`
        (Unix seconds) is when its question is refused by its time alone.

        What is older than something forgotten counts as used: the clock may have gone back.
        """
        now = int(self._clock.wall())
        with self._file.writing() as database:
            old = database.execute("SELECT max(until) FROM asked WHERE until < ?", (now,))
            newest = old.fetchone()[0]
            if newest is not None:
                floor = max(queries.number(database, _FORGOTTEN), float(newest))
                queries.set_number(database, _FORGOTTEN, floor)
                database.execute("DELETE FROM asked WHERE until < ?", (now,))
            if until <= queries.number(database, _FORGOTTEN):
                return False
            added = database.execute(
                "INSERT OR IGNORE INTO asked (iss, nonce, until) VALUES (?, ?, ?)",
                (iss, nonce, until),
            )
        return added.rowcount > 0
