"""The words for what a host did with a message; without a model, since many only ask for a word."""

from __future__ import annotations

from enum import StrEnum


class DeliveryCode(StrEnum):
    """What a host did with a message."""

    ACCEPTED = "accepted"  # its claim is on the host's disk: it reaches exactly one result
    DUPLICATE = "duplicate"  # the host has this job already; nothing was started
    REFUSED = "refused"  # the host will not do what was asked; `note` says why
    UNKNOWN = "unknown"  # the host knows no such job
    CANCELLING = "cancelling"  # the job is being ended, or will never start
