"""The pipes of one process that has no warden, and its end, served by one thread.

Memory stays flat: the last bytes are kept. It must never start, signal or reap anything. Linux only
(a descriptor of a process).
"""

from __future__ import annotations

import os
import select
import subprocess
import time

from runagent._pipes import READ_BYTES, Tail, widen


class Wires:
    """The pipes of one short process, served by one thread."""

    def __init__(
        self, child: subprocess.Popen[bytes], first: bytes, tails: tuple[Tail, Tail]
    ) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Tail] = {}
        self._files = [file for file in (child.stdin, child.stdout, child.stderr) if file]
        self._end = os.pidfd_open(child.pid)
        self._poll.register(self._end, select.POLLIN)
        self.ended_at = 0.0  # on the monotonic clock; it is not reaped yet, its number is its own
        self._rest = memoryview(first)
        self._stdin = child.stdin
        for file, tail in zip((child.stdout, child.stderr), tails, strict=True):
            if file is not None:
                self._readers[file.fileno()] = tail
                self._poll.register(file, select.POLLIN)
        if child.stdin is not None:
            os.set_blocking(child.stdin.fileno(), False)
            widen(child.stdin.fileno())
            self._poll.register(child.stdin, select.POLLOUT)

    @property
    def are_open(self) -> bool:
        """Say whether the process lives, or something is left to read."""
        return bool(self._readers) or not self.ended_at

    def serve(self, within_s: float) -> None:
        """Wait for the pipes and move what can be moved."""
        for fd, _ in self._poll.poll(within_s * 1000):
            if fd == self._end:
                self._poll.unregister(fd)
                self.ended_at = time.monotonic()
            elif fd in self._readers:
                self._read(fd)
            else:
                self._feed(fd)

    def _read(self, fd: int) -> None:
        chunk = os.read(fd, READ_BYTES)
        self._readers[fd].keep(chunk)
        if not chunk:
            self._poll.unregister(fd)
            del self._readers[fd]

    def _feed(self, fd: int) -> None:
        try:
            self._rest = self._rest[os.write(fd, self._rest[:READ_BYTES]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._rest = memoryview(b"")  # it need not read its input
        if not self._rest and self._stdin is not None:
            self._poll.unregister(fd)
            self._stdin.close()

    def close(self) -> None:
        """Close what is open still."""
        os.close(self._end)
        for file in self._files:
            file.close()
