"""What a door's refusal means for whoever sent: a door tells a status and nothing else. Pure."""

from __future__ import annotations

from typing import Final

from contracts.errors import Refused

_SAYS: Final[dict[int, tuple[str, str, str]]] = {
    400: ("bad_request", "did not understand the request", "is that a door of fleet-dispatch?"),
    403: (
        "door_refused",
        "refuses what we signed",
        "check the grant, the lane and both clocks; the host's log has the reason",
    ),
    404: ("no_door", "has no such door", "is that a door of fleet-dispatch, and new enough?"),
    408: ("too_slow", "did not get the whole job in time", "send the same again"),
    413: ("too_large", "refuses the job as too large", "shorten the task, or send it over a queue"),
    421: (
        "wrong_host",
        "is not reached under that name",
        "use a name in its [http] allowed_hosts, or add this one there",
    ),
    431: ("head_too_large", "refuses the head of the request", "is there a proxy on the way?"),
}


def refusal_of(status: int, url: str, code: str) -> Refused:
    """Return the error for an answer without a host's valid word. `code` says what was wrong with
    that word: an answer that seems to be a yes and is not signed is told as that."""
    if status in _SAYS:
        name, words, remedy = _SAYS[status]
        return Refused(f"the host at {url} {words} ({status})", code=name, remedy=remedy)
    return Refused(
        f"the answer of {url} ({status}) is not signed by a host that we granted a key ({code})",
        code="unsigned_answer",
        remedy="is that the right host? Grant it anew if its grant is old",
    )
