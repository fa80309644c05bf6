"""Answering signed questions: a result byte for byte, or our signed word on how a job stands.

Nobody but the sender of a job reads anything of it, not even that it is there. A result counts as
taken when it was asked for by its sender and handed over to the last byte; it stays as long as any
result does, so that an answer that was lost is simply asked for again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from starlette.responses import Response

from contracts.ask import Asked
from contracts.delivery import DeliveryCode
from worker.asks import VerifiedAsk
from worker.broker.outbox import Outbox
from worker.http.answers import signed
from worker.http.ends import Ends
from worker.journal.journal import Journal
from worker.journal.records import HTTP_DOOR, JobRecord
from worker.journal.schema import JobState
from worker.receipts import Receipts

_T = TypeVar("_T")


class AskedJobs:
    """The answers of one host. `in_thread` does what touches the journal."""

    def __init__(
        self, journal: Journal, outbox: Outbox, receipts: Receipts, ends: Ends, *, in_thread: Any
    ) -> None:
        self._journal = journal
        self._outbox = outbox
        self._receipts = receipts
        self._ends = ends
        self._in_thread = in_thread

    async def answer(self, ask: VerifiedAsk, wait_s: float) -> Response:
        """Answer one verified question; for a result that is not there yet, wait so long for it."""
        claims = ask.claims
        with self._ends.watching(claims.jti) as ended:  # first watch, then look: no end is missed
            record = await self._find(ask)
            is_open = record is not None and record.result is None
            if is_open and ended is not None and claims.what is Asked.RESULT:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), wait_s)
                record = await self._find(ask)
        if record is None:
            return await self._unknown(ask)
        if claims.what is Asked.RESULT and record.result is not None:
            sealed = await self._run(partial(self._outbox.sealed, record))
            when_sent = partial(self._note_taken, record)
            return signed(sealed, 200, when_sent=when_sent)
        return await self._state(record, claims.nonce)

    async def _find(self, ask: VerifiedAsk) -> JobRecord | None:
        record = await self._run(partial(self._journal.find, ask.claims.jti))
        return record if record is not None and record.iss == ask.claims.iss else None

    async def _state(self, record: JobRecord, nonce: str) -> Response:
        is_declined = record.state is JobState.REFUSED
        code = DeliveryCode.REFUSED if is_declined else DeliveryCode.ACCEPTED
        return signed(
            await self._run(partial(self._receipts.of_record, record, code, nonce=nonce)), 202
        )

    async def _unknown(self, ask: VerifiedAsk) -> Response:
        claims = ask.claims
        seal = partial(
            self._receipts.seal,
            claims.iss,
            claims.jti,
            "",
            DeliveryCode.UNKNOWN,
            kid=ask.kid,
            nonce=claims.nonce,
        )
        return signed(await self._run(seal), 404)

    def _note_taken(self, record: JobRecord) -> None:
        if record.facts.get("door") == HTTP_DOOR:
            self._journal.mark_published(record.jti)

    async def _run(self, act: Callable[[], _T]) -> _T:
        result: _T = await self._in_thread(act)
        return result
