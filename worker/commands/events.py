"""The events of a job as this host's own log has them, for `events` on the host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final

from contracts.clock import SystemClock
from contracts.errors import Refused
from contracts.events import JobEvent
from dispatch.events import is_final
from runagent.events.event_reader import LOG_NAME, EventReader
from worker.journal.journal import Journal
from worker.settings import load_host_settings

_LOOK_S: Final = 0.3


def local_events(job_id: str, from_seq: int, *, follow: bool) -> Iterator[JobEvent]:
    """Yield the events of a job's log from `from_seq` on; with `follow` until its last one, or
    until its job has ended.

    Raises Refused (`unknown_job`) for a job without a log here.
    """
    settings, clock, never = load_host_settings(), SystemClock(), threading.Event()
    folder = settings.runtime_dir(job_id)
    if not (folder / LOG_NAME).exists():
        raise Refused(
            f"this host has no log of job {job_id}",
            code="unknown_job",
            remedy="ask on the host that ran it; a log is kept as long as the journal has its job",
        )
    return _read(
        EventReader(folder, from_seq), follow=follow, job_id=job_id, clock=clock, never=never
    )


def _read(
    reader: EventReader,
    *,
    follow: bool,
    job_id: str,
    clock: SystemClock,
    never: threading.Event,
) -> Iterator[JobEvent]:
    while True:
        is_over = not follow or _has_ended(job_id)  # asked first: what came before it is read below
        events = [event for event, _ in reader.read()]
        yield from events
        if is_final(events):
            return
        if not events:
            if is_over:
                return
            clock.wait(never, _LOOK_S)


def _has_ended(job_id: str) -> bool:
    path = load_host_settings().journal_file
    if not path.exists():
        return True
    journal = Journal(path, SystemClock())
    try:
        record = journal.find(job_id)
        return record is None or record.result is not None
    finally:
        journal.close()
