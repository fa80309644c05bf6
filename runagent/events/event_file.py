"""The log of one job: `events.jsonl` in the job's private folder, one JSON object a line.

Only ever appended to, for its owner alone. The numbers go on without a gap after a crash, whatever
line it tore. It has a bound: an agent that floods fills no disk, and the last line says how much is
missing. Nothing here raises: a log that cannot be written costs only itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from contracts import limits
from contracts.clock import Clock
from contracts.events import Event, EventKind, JobEvent
from contracts.run_agent import RunAgentResult
from runagent.events.event_reader import LOG_NAME, EventReader
from runagent.events.protocol import end_event
from runagent.events.shown import shown
from validation.redaction import Redactor

_RESERVE_BYTES: Final = 64 * 1024  # for the host's own last words, behind the bound
# What a batch and the sender's bound of an entry (1 MiB, escaped and in base64) have room for; the
# longest text takes 200 KB of it.
_LINE_MAX_BYTES: Final = 256 * 1024
_WAITING_MAX: Final = 100  # events before the job has a folder


class EventFile:
    """See EventLog."""

    def __init__(
        self,
        folder: Path,
        job_id: str,
        clock: Clock,
        redactor: Redactor | None = None,
        *,
        max_bytes: int = limits.EVENTS_LOG_MAX_BYTES,
    ) -> None:
        self._folder = folder
        self._job_id = job_id
        self._clock = clock
        self._redactor = redactor or Redactor()
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: deque[JobEvent] = deque(maxlen=_WAITING_MAX)
        self._descriptor: int | None = None
        self._next = 1
        self._size = 0
        self._torn = False
        self._full = False
        self._lost = 0
        self._closed = False

    def append(self, event: Event, attempt: int = 0) -> None:
        """See EventLog.append."""
        if event.kind is EventKind.DELTA:
            return  # live only
        with self._lock:
            self._append(event, attempt)

    def end(self, result: RunAgentResult) -> None:
        """See EventLog.end."""
        with self._lock:
            self._append(end_event(result, self._lost), result.attempts, is_last=True)
            self._closed = True
            if self._descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(self._descriptor)
                self._descriptor = None

    def _append(self, event: Event, attempt: int, *, is_last: bool = False) -> None:
        if self._closed:
            return
        if self._full and not is_last:
            self._lost += 1
            return
        try:
            record = self._record(shown(event, self._redactor), attempt)
            if not self._open():
                self._waiting.append(record)
                return
            while self._waiting:
                self._write(self._waiting.popleft())
            self._write(record, is_last=is_last)
        except (OSError, ValueError, RecursionError):
            self._lost += 1

    def _record(self, event: Event, attempt: int) -> JobEvent:
        moment = datetime.fromtimestamp(self._clock.wall(), UTC)
        return JobEvent(
            jobId=self._job_id,
            attempt=attempt,
            seq=1,  # its number is given when it is written
            time=moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            kind=event.kind.value,
            text=event.text,
            data=event.data,
        )

    def _open(self) -> bool:
        """Open the log, once the job has its folder; say whether it is open."""
        if self._descriptor is not None:
            return True
        if not self._folder.is_dir():
            return False
        reader = EventReader(self._folder)
        while reader.read():
            continue  # an earlier process's: its numbers go on
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self._folder / LOG_NAME, flags, 0o600)
        self._size = os.fstat(descriptor).st_size
        self._torn = self._size > 0 and os.pread(descriptor, 1, self._size - 1) != b"\n"
        self._next = reader.next_seq
        self._descriptor = descriptor
        return True

    def _write(self, record: JobEvent, *, is_last: bool = False) -> None:
        line = _line(record.model_copy(update={"seq": self._next}))
        bound = self._max_bytes if is_last else self._max_bytes - _RESERVE_BYTES
        if self._size + len(line) > bound:
            self._lost += 1
            if is_last:
                return
            self._full = True
            message = f"the log of this job has reached its {self._max_bytes} bytes"
            told = Event(kind=EventKind.STATUS, text=message, data={"by": "host", "full": True})
            full = self._record(told, record.attempt)
            line = _line(full.model_copy(update={"seq": self._next}))
        self._put(line)
        self._next += 1

    def _put(self, line: bytes) -> None:
        assert self._descriptor is not None  # _open said so
        data = b"\n" + line if self._torn else line
        self._torn = True
        written = os.write(self._descriptor, data)
        self._size += written
        if written < len(data):
            raise OSError("the disk took a part of a line")
        self._torn = False


def _line(record: JobEvent) -> bytes:
    # ASCII: whatever prints this file, nothing in it acts on a terminal.
    line = _encoded(record)
    if len(line) > _LINE_MAX_BYTES:
        line = _encoded(record.model_copy(update={"data": {"truncated": True, "bytes": len(line)}}))
    return line


def _encoded(record: JobEvent) -> bytes:
    document = record.model_dump(mode="json")
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
