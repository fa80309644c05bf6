"""Running something that a person, a drain or a signal may stop.

Owns the step from "stop was asked for" to "the tree is being ended". It must never decide what a
stopped run means.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from runagent.process import ProcessOutcome, ProcessRunner, ProcessSpec, RunningProcess

REASON: Final = "stopped on request"
GAVE_UP: Final = "stopped by this host after it had tried again for long enough"
_LOOK_EVERY_S: Final = 0.1


def never() -> bool:
    """Give nothing up."""
    return False


def run_stoppable(
    runner: ProcessRunner,
    spec: ProcessSpec,
    cancelled: threading.Event,
    give_up: Callable[[], bool] = never,
) -> ProcessOutcome:
    """Start `spec` and return its outcome; end its tree when `cancelled` is set, or when `give_up`
    says so, which is asked ten times a second.

    A KeyboardInterrupt sets `cancelled` and is not raised again: the outcome says ABORTED.
    """
    running = runner.start(spec)
    over = threading.Event()
    watcher = threading.Thread(
        target=_abort_when, args=(cancelled, over, running, give_up), name="stop-watch", daemon=True
    )
    watcher.start()
    try:
        return _wait(running, cancelled)
    finally:
        over.set()
        watcher.join()


def _wait(running: RunningProcess, cancelled: threading.Event) -> ProcessOutcome:
    while True:
        try:
            return running.wait()
        except KeyboardInterrupt:
            cancelled.set()
            running.abort(REASON)


def _abort_when(
    cancelled: threading.Event,
    over: threading.Event,
    running: RunningProcess,
    give_up: Callable[[], bool],
) -> None:
    while not over.is_set():
        if give_up():
            running.abort(GAVE_UP)
            return
        if cancelled.wait(_LOOK_EVERY_S):
            running.abort(REASON)
            return
