"""The time zone in which a CLI on this host prints a time of day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

_LOCAL_ZONE: Final = Path("/etc/localtime")


def host_zone(environment: Mapping[str, str], now: float) -> tzinfo:
    """Return the zone that `environment` names in TZ, else this machine's, else UTC."""
    name = environment.get("TZ", "").removeprefix(":")
    try:
        if name:
            return ZoneInfo(name)
        with _LOCAL_ZONE.open("rb") as file:
            return ZoneInfo.from_file(file)
    except (ValueError, OSError, LookupError):
        # No zone of that name, or Windows: the offset of this moment is right but for a change of
        # the clocks until the limit ends.
        return datetime.fromtimestamp(now, UTC).astimezone().tzinfo or UTC


def here(now: float, environment: Mapping[str, str]) -> datetime:
    """Return the wall time `now` in the host's zone."""
    return datetime.fromtimestamp(now, UTC).astimezone(host_zone(environment, now))
