"""Putting a door together: its settings, its certificate, and what stands behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from contracts.delivery import DeliveryCode
from worker.door import DoorPorts
from worker.http.asked import AskedJobs
from worker.http.bounded_say import BoundedSay
from worker.http.door import HttpDoor
from worker.http.ends import Ends
from worker.http.jobs import PostedJobs
from worker.http.routes import Behind, SignedAnswer
from worker.http.settings import http_door_settings
from worker.http.tls import load_tls
from worker.settings import HostSettings

_T = TypeVar("_T")


def open_door(settings: HostSettings, ports: DoorPorts) -> HttpDoor | None:
    """Return the bound door of this host, None where none is set up; see `build_door`."""
    chosen = http_door_settings(settings.http)
    if chosen is None:
        return None
    tls = load_tls(chosen.tls_cert, chosen.tls_key)
    # Half of the places may wait for results: posts and orders always find one.
    ends = Ends(most=chosen.max_connections // 2)
    ports.outbox.on_end(ends.ring)
    if chosen.is_plain_and_open:
        remedy = "use TLS unless a proxy or a tunnel of yours does"
        ports.say("door_without_tls", bind=chosen.bind, remedy=remedy)
    quiet = replace(ports, say=BoundedSay(ports.say, ports.clock))
    return HttpDoor(chosen, tls=tls, ends=ends, behind=partial(_behind, quiet, ends), say=quiet.say)


def _behind(ports: DoorPorts, ends: Ends, threads: ThreadPoolExecutor) -> Behind:
    async def in_thread(act: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(threads, act)

    return Behind(
        jobs=PostedJobs(
            ports.entry,
            ports.receipts,
            ports.slots,
            is_draining=ports.is_draining,
            say=ports.say,
        ),
        asks=ports.controls.asks,
        asked=AskedJobs(ports.journal, ports.outbox, ports.receipts, ends, in_thread=in_thread),
        cancel=partial(_cancel, ports),
    )


def _cancel(ports: DoorPorts, text: bytes) -> SignedAnswer:
    """Obey a signed order, and answer with our signed word: 202 when it is taken, 409 when the job
    had its end already. Raises EnvelopeRefused and the journal's errors."""
    answer = ports.controls.control.cancel(text)
    receipt = answer.sealed_by(ports.receipts)
    taken = answer.code is not DeliveryCode.REFUSED
    return SignedAnswer(403 if receipt is None else 202 if taken else 409, receipt)
