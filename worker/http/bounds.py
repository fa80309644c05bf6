"""What one connection, and all of them together, may cost the HTTP door. Pure values.

An honest request is one small POST on a fresh connection, and its answer; everything here is a
multiple of that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from contracts import limits

# Of one request, headers and line together; ours have six headers and some 300 bytes.
HEADERS_MAX_BYTES: Final = 8_192
HEADERS_MAX: Final = 32
# Asks and cancels are a signature or a few around some 300 bytes.
SMALL_BODY_MAX_BYTES: Final = 16_384
JOB_BODY_MAX_BYTES: Final = limits.HTTP_JOB_MAX_BYTES
# Bodies beyond this share one room: one of the largest at a time, so that memory stays flat. A
# usual job has 5 KB and never needs it.
FREE_BODY_BYTES: Final = 65_536
SHARED_BODY_ROOM_BYTES: Final = JOB_BODY_MAX_BYTES + 1_048_576
# Threads that verify and claim: both take milliseconds, a full disk or a broker that hangs longer.
THREADS: Final = 8
RETRY_AFTER_S: Final = 2
# How long a job may wait for a slot that is just being given back.
SLOT_WAIT_S: Final = 0.5
# From a slot to the committed claim: the journal waits that long for a busy disk.
CLAIM_WAIT_S: Final = 30.0
BACKLOG: Final = 128


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds of one connection, each from its own beginning."""

    handshake_s: float = 5.0  # of TLS
    header_s: float = 5.0  # from the connection to a whole head
    body_s: float = 30.0  # the largest at 2 Mbit/s
    wait_s: float = 30.0  # of one long poll; a sender asks again
    write_s: float = 30.0  # for the answer to leave

    @property
    def life_s(self) -> float:
        """Return how long one connection lives at most, whatever it does."""
        return self.handshake_s + self.header_s + self.body_s + self.wait_s + self.write_s
