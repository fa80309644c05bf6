"""What is said to an order or a question that came over the broker, and how its sender hears it."""

from __future__ import annotations

from collections.abc import Callable

from redis import Redis

from contracts.ask import Asked
from worker.broker.left_receipts import leave_receipt
from worker.broker.outbox import Outbox
from worker.control import Answer
from worker.journal.journal import Journal
from worker.receipts import Receipts


class ControlAnswers:
    """The answers of one host over its broker."""

    def __init__(
        self,
        connection: Redis,
        journal: Journal,
        outbox: Outbox,
        receipts: Receipts,
        replay: Callable[[str, int], None],
    ) -> None:
        """`replay` sends the events of a job once more, from a number on."""
        self._connection = connection
        self._journal = journal
        self._outbox = outbox
        self._receipts = receipts
        self._replay = replay

    def give(self, answer: Answer) -> None:
        """Let the sender hear `answer`: by our signed word, or, where its result was asked for and
        is there, by that. May raise Redis's and the journal's errors."""
        asked = answer.asked
        if asked is not None and asked.what is Asked.RESULT and answer.result is not None:
            record = self._journal.find(answer.job_id)
            if record is not None:
                self._outbox.publish(record)
                return
        if asked is not None and asked.what is Asked.EVENTS and answer.job_sha256:
            self._replay(answer.job_id, asked.fromSeq)  # they go where events go, signed
            return
        receipt = answer.sealed_by(self._receipts)
        if receipt is not None:
            leave_receipt(self._connection, answer.job_id, receipt)
