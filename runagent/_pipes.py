"""The pipes of one process: two that are drained and one that is fed.

Memory stays flat whatever is printed: the last bytes of a stream are kept and all are counted.
No thread here may block for good: each waits for its pipe and for a common stop pipe, so that a
foreign process that holds a pipe open cannot hold us. POSIX only (`select.poll`).
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time

from contracts.errors import Unavailable
from runagent.process import ByteSink

_LOG = logging.getLogger(__name__)
READ_BYTES = 65_536  # measured: 64 KB reads reach 0.7 of `cat`, smaller ones do not
PIPE_BYTES = 1_048_576  # measured: a 1 MiB pipe raises that to 0.9


class Tail:
    """The last `size` bytes of a stream, and how many there were in all."""

    def __init__(self, size: int) -> None:
        self._size = max(0, size)
        self._kept = bytearray()
        self.total = 0

    def keep(self, chunk: bytes) -> None:
        """Take the next bytes; at most twice `size` and one chunk are held."""
        self.total += len(chunk)
        self._kept += chunk
        if len(self._kept) > 2 * self._size:
            del self._kept[: len(self._kept) - self._size]

    def last(self) -> bytes:
        """Return the last `size` bytes."""
        return bytes(self._kept[-self._size :]) if self._size else b""


class Stop:
    """Wakes every thread of one process at once. `at` is when they must have ended."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        self.at: float | None = None
        self._closed = False
        self._lock = threading.Lock()

    def order(self, within_s: float) -> None:
        """Tell the threads to finish what is there already, within `within_s` seconds."""
        with self._lock:
            if self.at is None:
                self.at = time.monotonic() + within_s
                os.close(self._writer)  # its end is seen by every poller

    def is_due(self) -> bool:
        """Say whether the time to finish is over."""
        return self.at is not None and time.monotonic() >= self.at

    def close(self) -> None:
        """Release the descriptors."""
        self.order(0.0)
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self.fd)


def widen(fd: int) -> None:
    """Ask for a 1 MiB pipe; what the system refuses stays as it is."""
    try:
        import fcntl

        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)  # type: ignore[attr-defined,unused-ignore]  # Linux
    except (ImportError, AttributeError, OSError):
        return


class Drain(threading.Thread):
    """Reads one pipe to its end, or until the stop. Owns the descriptor."""

    def __init__(self, name: str, fd: int, tail: Tail, sink: ByteSink | None, stop: Stop) -> None:
        super().__init__(name=f"drain-{name}", daemon=True)
        self._stream = name
        self._fd = fd
        self._tail = tail
        self._sink = sink
        self._stop_order = stop
        self._sink_failed = False

    def run(self) -> None:
        """Read until the end."""
        os.set_blocking(self._fd, False)
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        poller.register(self._stop_order.fd, select.POLLIN)
        try:
            while not self._stop_order.is_due():
                if not self._read_some(poller):
                    return
        finally:
            os.close(self._fd)

    def _read_some(self, poller: select.poll) -> bool:
        try:
            chunk = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            if self._stop_order.at is not None:
                return False  # told to finish, and nothing is there
            poller.poll()
            return True
        if not chunk:
            return False
        self._tail.keep(chunk)
        if self._sink is not None:
            self._pour(self._sink, chunk)
        return True

    def _pour(self, sink: ByteSink, chunk: bytes) -> None:
        try:
            sink(self._stream, chunk)
        except Exception as error:  # noqa: BLE001 - a sink's trouble must not stop the reading
            if not self._sink_failed:
                _LOG.warning("the live sink of %s failed: %s", self._stream, type(error).__name__)
            self._sink_failed = True


class Feed:
    """Standard input of one process. Owns the descriptor; never blocks past the stop."""

    def __init__(self, fd: int, stop: Stop) -> None:
        self._fd: int | None = fd
        self._lock = threading.Lock()
        self._begun = threading.Event()
        self._stop = stop
        os.set_blocking(fd, False)

    def begin(self, first: bytes, *, keep_open: bool) -> threading.Thread:
        """Send `first` from a thread; writes that follow wait for it."""
        thread = threading.Thread(
            target=self._begin, args=(first, keep_open), name="feed-stdin", daemon=True
        )
        thread.start()
        return thread

    def _begin(self, first: bytes, keep_open: bool) -> None:  # noqa: FBT001 - thread target
        try:
            with self._lock:
                self._begun.set()
                self._send(first)
        except Unavailable:
            return  # it need not read its input: `true` does not
        finally:
            if not keep_open:
                self.close()

    def write(self, data: bytes) -> None:
        """Send `data`. Raises Unavailable when nobody reads any more."""
        self._begun.wait()
        with self._lock:
            self._send(data)

    def close(self) -> None:
        """End the stream. Twice is once."""
        self._begun.wait()
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def release(self) -> None:
        """Close it whether or not it ever began. The stop must have been ordered."""
        self._begun.set()
        self.close()

    def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._fd is None or self._stop.at is not None:
                raise Unavailable("the process's standard input is closed")
            try:
                rest = rest[os.write(self._fd, rest[:READ_BYTES]) :]
            except BlockingIOError:
                self._await_room(self._fd)
            except BrokenPipeError as error:
                raise Unavailable("the process does not read its standard input") from error

    def _await_room(self, fd: int) -> None:
        poller = select.poll()
        poller.register(fd, select.POLLOUT)
        poller.register(self._stop.fd, select.POLLIN)
        poller.poll()
