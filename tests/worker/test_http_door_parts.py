"""The parts of the HTTP door that no peer can time: who gets a turn, and what a drain takes."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from uvicorn.config import Config

from contracts.clock import SystemClock
from worker.http.bounds import Deadlines
from worker.http.doorway import Doorway
from worker.http.jobs import PostedJobs
from worker.slots import Slots


class CountingSocket(socket.socket):
    """A listening socket that knows how many connections were taken from it."""

    taken = 0

    def accept(self) -> Any:
        accepted = super().accept()
        self.taken += 1
        return accepted


async def _flood(listening: CountingSocket) -> int:
    config = Config(cast("Any", None), http="h11", ws="none", lifespan="off", log_config=None)
    config.load()
    doorway = Doorway(listening, config, tls=None, most=4, deadlines=Deadlines())
    peers = [socket.create_connection(listening.getsockname(), timeout=10) for _ in range(40)]
    accepting = asyncio.create_task(doorway.run())
    await asyncio.sleep(0)
    taken = listening.taken
    for peer in peers:
        peer.close()
    accepting.cancel()
    await doorway.close()
    return taken


def test_a_flood_of_connections_leaves_a_turn_to_everybody_else() -> None:
    with CountingSocket(socket.AF_INET, socket.SOCK_STREAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        listening.settimeout(0)
        assert asyncio.run(_flood(listening)) == 1


class Entry:
    """An entry that takes every job."""

    def __init__(self) -> None:
        self.took = 0

    def verified(self, _text: bytes, _posted: object) -> Any:
        return cast("Any", self)

    @property
    def claims(self) -> Any:
        return self

    jti = "0123456789abcdef0123"

    def is_known(self, _job: object, _posted: object) -> bool:
        return False

    def take(self, _job: object, _posted: object) -> None:
        self.took += 1

    def of_job(self, _job: object, _code: object) -> str:
        return "receipt"


def test_a_job_that_waited_for_a_slot_while_the_drain_began_is_not_taken() -> None:
    entry, slots = Entry(), Slots(1, SystemClock())
    answers = iter([False, True])
    jobs = PostedJobs(
        cast("Any", entry),
        cast("Any", entry),
        slots,
        is_draining=lambda: next(answers),
        say=lambda what, **details: None,
    )
    assert jobs.take(b"text").status == 503
    assert entry.took == 0
    assert slots.take(0), "the slot is free again"
