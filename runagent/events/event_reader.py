"""Reading a job's log, to its end and on from there: tolerant of a line that a crash tore."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from contracts.events import JobEvent, read_job_event

LOG_NAME: Final = "events.jsonl"
_READ_BYTES: Final = 1024 * 1024


class EventReader:
    """Reads one log from its beginning. Follows no link; a log that is not there is empty."""

    def __init__(self, folder: Path, from_seq: int = 1) -> None:
        """`from_seq` is the first event that is wanted."""
        self._path = folder / LOG_NAME
        self._position = 0
        self.next_seq = 1
        self._from_seq = from_seq

    def read(self, max_bytes: int = _READ_BYTES) -> list[tuple[JobEvent, str]]:
        """Return the events that came since the last call, with their lines, of `max_bytes` bytes
        of the log at most (one line at least); empty when none came. May raise OSError."""
        found: list[tuple[JobEvent, str]] = []
        while True:
            data = self._next_bytes(max_bytes)
            end = data.rfind(b"\n")
            if end < 0:
                return found
            self._position += end + 1
            for line in data[:end].split(b"\n"):
                text = line.decode("utf-8", "replace")  # whoever wrote it: nothing here raises
                event = read_job_event(text)
                if event is None or event.seq != self.next_seq:
                    continue  # torn by a crash: the number after it is the one that was due
                self.next_seq += 1
                if event.seq >= self._from_seq:
                    found.append((event, text))
            if found:
                return found

    def _next_bytes(self, max_bytes: int) -> bytes:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            descriptor = os.open(self._path, flags)
        except FileNotFoundError:
            return b""
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b""
            file.seek(self._position)
            data = file.read(max_bytes)
            if b"\n" not in data and len(data) == max_bytes:
                data += file.readline()
            return data
