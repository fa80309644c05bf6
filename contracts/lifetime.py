"""When a signed message counts: from its issue to its end, and no moment longer. Pure.

Age and future have limits of their own. One window around both ends would let a message that was
issued by a fast clock live twice as long as it may.
"""

from __future__ import annotations

from contracts import limits
from contracts.errors import EnvelopeRefused


def check_lifetime(iat: int, exp: int, *, longest_s: int, now: float) -> None:
    """Check that a message issued at `iat` and ending at `exp` (Unix seconds) counts at `now`.

    Raises EnvelopeRefused with code `not_yet_valid`, `lifetime` (ends before it begins, or lives
    longer than `longest_s`) or, after everything else, `expired`.
    """
    if iat > now + limits.SKEW_S:
        raise EnvelopeRefused("issued in the future", code="not_yet_valid")
    if not 0 < exp - iat <= longest_s:
        raise EnvelopeRefused("lives longer than it may", code="lifetime")
    if exp + limits.SKEW_S <= now:
        raise EnvelopeRefused("expired", code="expired")
