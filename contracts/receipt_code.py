"""The words for why a sender ended its own job; without a model, since many only ask for a word."""

from __future__ import annotations

from enum import StrEnum


class ReceiptCode(StrEnum):
    """Why a sender ended a job; the same word is the risk code of the result that is shown."""

    ABANDONED = "abandoned"  # given up: what the host did, if anything, is not known here
    EXPIRED = "expired"  # no host took it before its time ran out
    CANCELLED = "cancelled"  # taken back before any host had it
