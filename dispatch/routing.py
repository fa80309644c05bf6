"""Who a job is for: named hosts, or the first free host of a lane. Pure, over the keyring.

All targets are checked before anything is signed, so that a request is queued whole or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.errors import InvalidRequest, KeysRefused, Problem
from contracts.ids import checked_name
from contracts.naming import host_audience, host_queue, lane_audience, lane_queue
from dispatch.keyring import SenderKeyring


@dataclass(frozen=True, slots=True)
class Route:
    """One way to one queue: the audience to sign for, and the RQ queue's name."""

    aud: str
    lane: str
    queue_name: str

    @property
    def target(self) -> str:
        """Return the host's name, "" for any host of the lane."""
        kind, _, name = self.aud.partition(":")
        return name if kind == "host" else ""


def plan_routes(
    keyring: SenderKeyring, lane: str, targets: Sequence[str] | None
) -> tuple[Route, ...]:
    """Return one route per target, or the lane's own route when there are none.

    Raises InvalidRequest for a malformed or repeated name, and KeysRefused when a target (or, for
    the lane's route, every host) holds no key of ours for the lane. All problems at once.
    """
    checked_name(lane, "lane")
    if not targets:
        if targets is not None:
            raise InvalidRequest([Problem("targets", "is empty", "name a host, or leave it out")])
        if not keyring.is_granted(lane):
            raise KeysRefused(
                f"no host holds a key of {keyring.name} for lane {lane}",
                code="no_grant",
                remedy=f"fleet-dispatch keys grant HOST --lanes {lane}",
            )
        return (Route(lane_audience(lane), lane, lane_queue(lane)),)
    _check_names(targets)
    missing = [name for name in targets if lane not in (keyring.lanes_of(name) or ())]
    if missing:
        raise KeysRefused(
            f"no key of {keyring.name} for lane {lane} was granted to {', '.join(missing)}",
            code="no_grant",
            remedy=f"fleet-dispatch keys grant {missing[0]} --lanes {lane}",
        )
    return tuple(Route(host_audience(name), lane, host_queue(lane, name)) for name in targets)


def _check_names(targets: Sequence[str]) -> None:
    problems: list[Problem] = []
    for name in targets:
        try:
            checked_name(name, "targets")
        except InvalidRequest as error:
            problems += error.problems
    if len(set(targets)) != len(targets):
        problems.append(Problem("targets", "names a host twice", "name each host once"))
    if problems:
        raise InvalidRequest(problems)
