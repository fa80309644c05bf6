"""Reading heartbeats: unsigned text of anybody, bounded, and never more than a hint."""

from __future__ import annotations

import json
from typing import Any, Final

from redis.exceptions import ResponseError

from contracts import naming
from dispatch.queue.bounded_reads import is_wrong_type

_HEARTBEAT_MAX_BYTES: Final = 64 * 1024


def read_beat(connection: Any, host: str) -> dict[str, Any]:
    """Return the heartbeat of `host`, {} when there is none that can be read.

    May raise Redis's errors.
    """
    try:
        text = connection.getrange(naming.host_key(host), 0, _HEARTBEAT_MAX_BYTES)
        beat = json.loads(text or b"{}")
    except (ValueError, RecursionError):
        return {}
    except ResponseError as error:
        if not is_wrong_type(error):
            raise
        return {}
    return beat if isinstance(beat, dict) else {}
