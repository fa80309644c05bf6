"""Taking jobs: a free slot first, then a look at each queue in turn, then a thread for the job.

A host that is busy takes nothing, so it never holds a lane's job back. What cannot be a job is
buried and the next look goes on. A broker that is away is waited for, with growing pauses, and
said once. Starts jobs in slots; runs nothing itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import Enum, auto
from functools import partial
from typing import Final

from redis.exceptions import RedisError, ResponseError

from contracts.clock import Clock
from contracts.errors import CouldNotCheck, FleetError, Unavailable
from dispatch.queue.bounded_reads import is_wrong_type
from dispatch.queue.link import translation
from worker.announcer import Say
from worker.broker.bells import Bells
from worker.broker.board import Board
from worker.broker.packed_call import Poisoned
from worker.broker.taken_entry import TakenEntry
from worker.delivery import Ending
from worker.entry import RunEnvelope
from worker.sealed import SealedJob, SealedWorker, find_first
from worker.slots import Slots

BROKER_AWAY: Final = (RedisError, Unavailable, CouldNotCheck)
_LISTEN_S: Final = 1.0  # a lost ring costs at most this
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 5.0
# A job that only other hosts may do comes round again and again: this often it is looked at.
_HOLD_S: Final = 1.0


class Look(Enum):
    """What a look at the queues found."""

    STARTED = auto()
    BURIED = auto()  # something that is no job: look again at once
    NOTHING = auto()
    BUSY = auto()  # no slot was free: nobody looked


class Intake:
    """The intake of one listener. `run` is its loop; everything else may be called meanwhile."""

    def __init__(
        self,
        workers: Sequence[SealedWorker],
        entry: RunEnvelope,
        *,
        slots: Slots,
        bells: Bells,
        board: Board,
        clock: Clock,
        say: Say,
        broker: str = "its address",
    ) -> None:
        """`broker` is its URL as it may be shown."""
        self._broker = broker
        self._workers = list(workers)
        self._entry = entry
        self._slots = slots
        self._bells = bells
        self._board = board
        self._clock = clock
        self._say = say
        self._lock = threading.Lock()
        self._in_flight: set[tuple[str, str]] = set()
        self._passed_on: set[str] = set()
        self._postponed: set[str] = set()
        self._held_until: dict[str, float] = {}
        self._left_over = (
            True  # entries that were taken and not settled: by a crash, or a broken link
        )
        self._away = False

    def run(self, stop: threading.Event) -> None:
        """Take jobs until `stop` is set; the jobs that were taken run on."""
        pause = _FIRST_PAUSE_S
        while not stop.is_set():
            try:
                if self._turn(stop) is Look.NOTHING:
                    self._bells.wait(_LISTEN_S)
                pause = _FIRST_PAUSE_S
            except BROKER_AWAY as error:
                self._lost_sight(error, pause, stop)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _turn(self, stop: threading.Event) -> Look:
        """Look once, with a slot in hand; it is not kept while nothing waits, for another door."""
        if not self._slots.take(_LISTEN_S):
            return Look.BUSY
        looked = Look.NOTHING
        try:
            self._reclaim()
            looked = self._look(stop)
            self._back()
        finally:
            if looked is not Look.STARTED:
                self._slots.give_back()
        return looked

    def _look(self, stop: threading.Event) -> Look:
        """Look at each queue once, first at the one after the last that had a job."""
        looked = Look.NOTHING
        waiting = [worker for worker in self._workers if not self._is_held(worker)]
        while waiting and not stop.is_set():
            found = find_first(waiting)
            if found is None:
                break
            worker = found.worker
            del waiting[: waiting.index(worker) + 1]
            try:
                job = worker.opened(found, partial(self._entry_for, worker))
            except Poisoned as poison:
                self._bury(worker, poison)
                looked = Look.BURIED
                continue
            if self._went_round(worker, job):
                continue
            self._workers.remove(worker)
            self._workers.append(worker)
            self._start(worker, job)
            return Look.STARTED
        return looked

    def _entry_for(self, worker: SealedWorker, job_id: str) -> Callable[[str], Ending]:
        return partial(self._entry, delivery=TakenEntry(worker, job_id))

    def _start(self, worker: SealedWorker, job: SealedJob) -> None:
        with self._lock:
            self._in_flight.add((worker.queue_name, job.id))
        self._slots.start(job.id, partial(self._perform, worker, job))

    def _perform(self, worker: SealedWorker, job: SealedJob) -> None:
        """The top of a job's thread: whatever happens, the job is in nobody's hands afterwards."""
        try:
            if job.perform() is Ending.PASSED_ON:
                with self._lock:
                    self._passed_on.add(job.id)
        except BROKER_AWAY as error:
            with self._lock:
                self._postponed.add(job.id)
            self._left_over = True
            self._hold(worker)  # a disk that stays full must not make us spin
            self._say("postponed", job=job.id, reason=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - a mistake of ours ends this job, not the listener
            self._say("listener_failed", job=job.id, reason=type(error).__name__)
            self._entry.give_up(job.id, f"the listener failed: {type(error).__name__}")
        finally:
            with self._lock:
                self._in_flight.discard((worker.queue_name, job.id))

    def _reclaim(self) -> None:
        """Put back what was taken and is in nobody's hands."""
        if not self._left_over:
            return
        self._left_over = False
        try:
            for worker in self._workers:
                for job_id in worker.taken():
                    with self._lock:
                        in_flight = (worker.queue_name, job_id) in self._in_flight
                        postponed = job_id in self._postponed
                        self._postponed.discard(job_id)
                    if not in_flight:
                        # What failed a moment ago goes to the end: it must not block the others.
                        self._give_back(worker, job_id, first=not postponed)
        except BaseException:
            self._left_over = True
            raise

    def _give_back(self, worker: SealedWorker, job_id: str, *, first: bool) -> None:
        try:
            worker.give_back(job_id, first=first)
        except ResponseError as error:
            if not is_wrong_type(error):
                raise
            self._left_over = True  # the queue is no list now: the job stays ours till it is one
            self._hold(worker)

    def _bury(self, worker: SealedWorker, poison: Poisoned) -> None:
        self._board.bury(worker.queue_name, poison.job_id, poison.reason)
        if poison.job_id:
            self._board.expire_poison(poison.job_id)
            worker.settle(poison.job_id)
        if poison.reason == "queue_unreadable":
            self._hold(worker)
        self._say("buried", queue=worker.queue_name, reason=poison.reason)

    def _went_round(self, worker: SealedWorker, job: SealedJob) -> bool:
        """Put a job that we passed on already back without a second look, and pause its queue."""
        with self._lock:
            if job.id not in self._passed_on:
                return False
            self._passed_on.clear()
        self._give_back(worker, job.id, first=False)
        self._hold(worker)
        return True

    def _hold(self, worker: SealedWorker) -> None:
        self._held_until[worker.queue_name] = self._clock.monotonic() + _HOLD_S

    def _is_held(self, worker: SealedWorker) -> bool:
        return self._clock.monotonic() < self._held_until.get(worker.queue_name, 0.0)

    def _lost_sight(self, error: Exception, pause: float, stop: threading.Event) -> None:
        self._left_over = True
        self._bells.close()
        if not self._away:
            self._away = True
            known = error if isinstance(error, FleetError) else translation(error, self._broker)
            self._say("broker_away", reason=known.message, remedy="this listener keeps trying")
        self._clock.wait(stop, pause)

    def _back(self) -> None:
        if self._away:
            self._away = False
            self._say("broker_back")
