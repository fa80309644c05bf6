"""The lease of a host's name in its journal: one listener at a time, however many are started.

A live listener keeps it. One that died gives it up at once; one that cannot be seen from here (an
earlier container, another machine with the same home) when it was not renewed in time. Whoever
finds that it lost the lease has to stop: its jobs were ended by the one that has it now.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

from contracts.clock import Clock
from contracts.errors import DiskFull, Refused
from worker.announcer import Say
from worker.journal.journal import Journal
from worker.journal.owners import is_alive, machine_of, pid_of
from worker.reserve import Reserve

LEASE_KIND: Final = "listener"
LEASE_S: Final = 30.0  # ten beats: a machine under heavy load misses some
_LOOK_EVERY_S: Final = 1.0


class HostLease:
    """The lease of one host, for the listener in this process."""

    def __init__(
        self, journal: Journal, host: str, reserve: Reserve, clock: Clock, say: Say
    ) -> None:
        self._journal = journal
        self._host = host
        self._reserve = reserve
        self._clock = clock
        self._say = say
        self.is_lost = False  # somebody else has it, and speaks for this host

    def take(self) -> None:
        """Take the lease; from here on the journal takes nothing from us without it.

        Waits while the one who holds it cannot be seen from here. Raises Refused when a listener
        of this host runs.
        """
        give_up = self._clock.monotonic() + LEASE_S + _LOOK_EVERY_S
        holder = self._acquire()
        if holder is not None and is_alive(holder) is None:
            self._say("waiting_for_lease", host=self._host, holder=machine_of(holder))
        while holder is not None:
            if is_alive(holder) or self._clock.monotonic() >= give_up:
                raise Refused(
                    f"a listener of host {self._host} runs already: process {pid_of(holder)} on "
                    f"{machine_of(holder)}",
                    code="already_listening",
                    remedy="stop that one, or give this one another --host and home",
                )
            self._clock.wait(threading.Event(), _LOOK_EVERY_S)
            holder = self._acquire()
        self._journal.require_lease(LEASE_KIND, self._host)

    def renew(self, when_lost: Callable[[], None]) -> None:
        """Renew the lease; call `when_lost`, once, when somebody else has it. May raise the
        journal's errors."""
        holder = self._acquire()
        if holder is None or self.is_lost:
            return
        self.is_lost = True
        machine, remedy = machine_of(holder), "this listener ends what it runs and stops"
        self._say("lease_lost", host=self._host, to=machine, remedy=remedy)
        when_lost()

    def release(self) -> None:
        """Give the lease back, if it is still ours. A dead process's lease holds nobody up: a disk
        without room for this is no fault."""
        with contextlib.suppress(DiskFull):
            self._journal.leases.release(LEASE_KIND, self._host)

    def _acquire(self) -> str | None:
        leases = self._journal.leases
        return self._reserve.lend(lambda: leases.acquire(LEASE_KIND, self._host, seconds=LEASE_S))
