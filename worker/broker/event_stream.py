"""The events of running jobs on their way to their senders: signed batches in one bounded stream a
job.

Reads each job's log from the disk, in a thread of its own: the log is the buffer, so nothing that
happens to the broker slows a run or costs it an event. What the stream has lost, the sender asks
for, and it is sent once more from the log. It must never change what stands in a log, but for the
end of one whose run could not write it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError

from contracts import limits, naming
from contracts.clock import Clock
from contracts.envelope import EVENT_TYPE, seal
from contracts.errors import CouldNotCheck, KeysRefused, Unavailable
from contracts.event_batch import EventBatch
from contracts.kinds import Kind
from contracts.run_agent import RunAgentResult
from dispatch.keyring import HostKeyring
from dispatch.queue.bounded_reads import overwriting
from runagent.events.event_file import EventFile
from runagent.events.event_reader import EventReader
from worker.announcer import Say
from worker.journal.journal import Journal
from worker.journal.records import LOCAL_SENDER, JobRecord
from worker.journal.schema import JobState

EVERY_S: Final = 0.5  # a person sees a line soon, and a thousand lines are one entry
_AWAY_S: Final = 5.0
_BATCHES_AT_ONCE: Final = 16  # of one job, before the next one's turn
_REPLAYS_MAX: Final = 64
_IDLE_S: Final = 30.0


@dataclass(slots=True)
class _Followed:
    """One log on its way: where it is read, and the batch that is not sent yet."""

    job_id: str
    reader: EventReader
    pending: str = ""
    has_end: bool = False
    batches_left: int | None = None  # of a replay; None: to the end of the job
    told: bool = field(default=False)


class EventStream:
    """The outgoing events of one listener."""

    def __init__(
        self,
        connection: Redis,
        journal: Journal,
        keyring: HostKeyring,
        folder_of: Callable[[str], Path],
        clock: Clock,
        say: Say,
    ) -> None:
        self._redis: Any = connection  # redis types every answer as sync or awaitable
        self._journal = journal
        self._keyring = keyring
        self._folder_of = folder_of
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()
        self._followed: dict[str, _Followed] = {}
        self._replays: list[_Followed] = []
        self._wake = threading.Event()

    def follow(self, job_id: str) -> None:
        """Send the events of a job from its first one on, until its last."""
        with self._lock:
            reader = EventReader(self._folder_of(job_id))
            self._followed.setdefault(job_id, _Followed(job_id, reader))
        self._wake.set()

    def following(
        self, conclude: Callable[[str, RunAgentResult], None]
    ) -> Callable[[str, RunAgentResult], None]:
        """Return `conclude`, with the log of the job sent after it: its run is lost."""

        def conclude_and_follow(job_id: str, result: RunAgentResult) -> None:
            conclude(job_id, result)
            self.follow(job_id)

        return conclude_and_follow

    def replay(self, job_id: str, from_seq: int) -> None:
        """Send the events of a job once more from number `from_seq` on: as many as the stream
        holds. The caller has checked who asks. What is asked beyond a bound is dropped."""
        reader = EventReader(self._folder_of(job_id), max(1, from_seq))
        with self._lock:
            asked = _Followed(job_id, reader, batches_left=limits.EVENTS_STREAM_MAX_BATCHES // 2)
            if len(self._replays) < _REPLAYS_MAX:
                self._replays.append(asked)
        self._wake.set()

    def run(self, stop: threading.Event) -> None:
        """Send until `stop` is set, and what is there by then."""
        while not stop.is_set():
            self._wake.clear()
            pause = EVERY_S if self.send() else _AWAY_S
            if not self._is_busy():
                self._wake.wait(_IDLE_S)
            else:
                self._clock.wait(stop, pause)
        self.send()

    def wake(self) -> None:
        """Make `run` look now."""
        self._wake.set()

    def send(self) -> bool:
        """Send what is due; say whether the broker took it."""
        with self._lock:
            followed, replays = list(self._followed.values()), list(self._replays)
        is_taken = True
        try:
            for item in (*followed, *replays):
                try:
                    if self._advance(item):
                        self._drop(item)
                except OSError:
                    is_taken = False  # this log cannot be read now: those of other jobs go on
        except (RedisError, Unavailable, CouldNotCheck):
            return False  # the log keeps it
        return is_taken

    def _is_busy(self) -> bool:
        with self._lock:
            return bool(self._followed or self._replays)

    def _drop(self, item: _Followed) -> None:
        with self._lock:
            if item in self._replays:
                self._replays.remove(item)
            elif self._followed.get(item.job_id) is item:
                del self._followed[item.job_id]

    def _advance(self, item: _Followed) -> bool:
        """Send what is new of one log; say whether nothing more will come."""
        record = self._journal.find(item.job_id)
        if record is None or record.iss == LOCAL_SENDER:
            return True
        for _ in range(_BATCHES_AT_ONCE):
            if not item.pending and not self._fill(item, record):
                return self._is_over(item, record)
            self._publish(item)
            if item.batches_left is not None:
                item.batches_left -= 1
                if item.batches_left <= 0:
                    return True
        return False

    def _fill(self, item: _Followed, record: JobRecord) -> bool:
        found = item.reader.read(limits.EVENTS_BATCH_MAX_BYTES)
        if not found:
            return False
        item.has_end = found[-1][0].data.get("final") is True
        batch = EventBatch(
            iss=self._keyring.host,
            aud=record.iss,
            jti=record.jti,
            iat=int(self._clock.wall()),
            jobSha256=record.job_sha256,
            first=found[0][0].seq,
            lines=tuple(line for _, line in found),
        )
        try:
            signer = self._keyring.host_signer("event", record.iss, job_kid=record.facts.get("kid"))
        except KeysRefused as error:
            if not item.told:
                item.told = True
                self._say("events_cannot_be_signed", job=record.jti, reason=error.message)
            return True  # they stand in the log
        item.pending = seal(batch.model_dump_json().encode("utf-8"), EVENT_TYPE, [signer])
        return True

    def _publish(self, item: _Followed) -> None:
        if not item.pending:
            return
        key, text = naming.events_stream(item.job_id), item.pending

        def write() -> None:
            with self._redis.pipeline(transaction=True) as pipe:
                most = limits.EVENTS_STREAM_MAX_BATCHES
                pipe.xadd(key, {"e": text}, maxlen=most, approximate=False)
                pipe.expire(key, limits.EVENTS_STREAM_TTL_S)
                pipe.execute()

        overwriting(self._redis, key, write)
        item.pending = ""

    def _is_over(self, item: _Followed, record: JobRecord) -> bool:
        """Say whether a log has its last line. One whose run died without it gets it here."""
        if item.batches_left is not None or item.has_end:
            return True
        folder = self._folder_of(item.job_id)
        if record.result is None:
            return record.state is JobState.REFUSED  # declined: no more comes of it from here
        if record.kind != Kind.RUN_AGENT or not folder.is_dir() or item.told:
            return True
        item.told = True
        log = EventFile(folder, item.job_id, self._clock)
        log.end(RunAgentResult.model_validate_json(record.result))
        return False
