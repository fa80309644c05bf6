"""The statuses of the contract; without a model, since many only ask for a word."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The five statuses of the contract. There will be no sixth."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    RATE_LIMITED = "rate_limited"
    APPROVAL_REQUIRED = "approval_required"
