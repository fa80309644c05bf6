"""What an attempt came to, told to the governor.

Owns the translation of an attempt's end into what is booked. Judges nothing.
"""

from __future__ import annotations

from contracts.run_agent import Risk
from runagent.attempt_end import Attempted
from runagent.bookings import Bookings
from runagent.governor import Spent


def settle(bookings: Bookings, number: int, attempted: Attempted) -> tuple[Risk, ...]:
    """Settle the start `number`. Returns notes: what the governor did not take."""
    return bookings.settle(number, Spent(started=attempted.launched))
