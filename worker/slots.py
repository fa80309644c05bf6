"""The slots of a host: how many jobs it does at the same time, whichever door they came through.

A slot is taken before a job is, and goes back when the job's thread ends. Starts and counts those
threads; knows nothing of what they do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from contracts.clock import Clock


class Slots:
    """The slots of one listener; safe between threads."""

    def __init__(self, count: int, clock: Clock) -> None:
        self._slots = threading.Semaphore(count)
        self._clock = clock
        self._lock = threading.Lock()
        self._free = count
        self._jobs: list[str] = []
        self._threads: set[threading.Thread] = set()

    def take(self, seconds: float) -> bool:
        """Take a slot, waiting at most `seconds`; say whether there was one. Whoever took it starts
        a job in it or gives it back."""
        return self._slots.acquire(timeout=seconds)

    def give_back(self) -> None:
        """Give back a slot in which nothing was started."""
        self._slots.release()

    def start(self, job_id: str, work: Callable[[], None]) -> None:
        """Do `work` for a job in a thread of its own, in the slot that the caller took."""
        thread = threading.Thread(target=self._do, args=(job_id, work), name=f"job-{job_id}")
        with self._lock:
            self._free -= 1
            self._jobs.append(job_id)
            self._threads.add(thread)
        try:
            thread.start()
        except BaseException:
            self._forget(job_id, thread)
            raise

    def free(self) -> int:
        """Return how many jobs could start now."""
        with self._lock:
            return self._free

    def job_ids(self) -> list[str]:
        """Return the ids of the jobs that are in this host's hands, at most one for each slot."""
        with self._lock:
            return sorted(self._jobs)

    def join(self, seconds: float) -> bool:
        """Wait at most `seconds` for the running jobs; say whether all have ended."""
        give_up = self._clock.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, give_up - self._clock.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _do(self, job_id: str, work: Callable[[], None]) -> None:
        try:
            work()
        finally:
            self._forget(job_id, threading.current_thread())
            self._slots.release()

    def _forget(self, job_id: str, thread: threading.Thread) -> None:
        with self._lock:
            self._free += 1
            self._jobs.remove(job_id)
            self._threads.discard(thread)
