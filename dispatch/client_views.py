"""What a client shows: jobs and hosts as they stand now, for people. Ends nothing by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from contracts.errors import FleetError, KeysRefused
from contracts.ids import checked_job_id
from dispatch.hosts import HostView
from dispatch.job_views import JobView
from dispatch.keyring import SenderKeyring
from dispatch.known_hosts import UnservedLane, known_hosts, unserved_lanes
from dispatch.queue import FleetQueue
from dispatch.sweeper import Sweeper
from dispatch.viewing import Viewing


class ClientViews:
    """The half of `FleetClient` that shows."""

    def __init__(
        self,
        keyring: SenderKeyring | KeysRefused,
        queue: FleetQueue,
        sweeper: Sweeper,
        viewing: Viewing,
    ) -> None:
        self._ring = keyring
        self._queue = queue
        self._sweeper = sweeper
        self._viewing = viewing

    def jobs(self, limit: int = 50) -> list[JobView]:
        """Return at most `limit` of the newest jobs: ours, and what the broker shows of others'.

        Sees to our open jobs first, as `sweep` does.
        """
        if isinstance(self._ring, SenderKeyring):
            with contextlib.suppress(FleetError):  # what cannot be mended now is still shown
                self._sweeper.sweep()
        return self._viewing.newest(limit, self.hosts)

    def views(self, job_ids: Sequence[str]) -> list[JobView]:
        """Return how jobs stand now, in the order given."""
        return self._viewing.of([checked_job_id(job_id) for job_id in job_ids], self.hosts)

    def hosts(self) -> list[HostView]:
        """Return every host that was seen or granted keys, silent ones included."""
        return known_hosts(self._ring, self._queue)

    def unserved(self, hosts: Sequence[HostView]) -> list[UnservedLane]:
        """Return the lanes of `hosts` in which jobs wait and which no living host serves."""
        return unserved_lanes(self._queue, hosts)
