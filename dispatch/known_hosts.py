"""Which hosts there are, for a sender: those that were seen and those that were granted keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.errors import KeysRefused
from contracts.naming import lane_queue
from dispatch.hosts import HostView, no_listener_words, view_hosts
from dispatch.keyring import SenderKeyring
from dispatch.queue import FleetQueue


def known_hosts(keyring: SenderKeyring | KeysRefused, queue: FleetQueue) -> list[HostView]:
    """Return every host that was seen or granted keys, silent ones included; note which keys of
    ours the living ones prove to hold.

    Raises Unavailable when the broker is away.
    """
    granted: dict[str, Sequence[str]] = {}
    if isinstance(keyring, SenderKeyring):
        names = {grant.host for grant in keyring.grants}
        granted = {name: sorted(keyring.lanes_of(name) or ()) for name in names}
    hosts = view_hosts(queue.heartbeats(), list(granted.items()))
    beats = [host.beat for host in hosts if host.beat is not None]
    if isinstance(keyring, SenderKeyring) and any(beat.held for beat in beats):
        from dispatch.holdings import note_held

        note_held(keyring, ((beat.host, text) for beat in beats for text in beat.held))
    return hosts


@dataclass(frozen=True, slots=True)
class UnservedLane:
    """A lane in which `queued` jobs wait for any of its hosts, and none of them is there."""

    lane: str
    queued: int

    @property
    def why(self) -> str:
        """Return the sentence for people."""
        return no_listener_words(self.lane)


def unserved_lanes(queue: FleetQueue, hosts: Sequence[HostView]) -> list[UnservedLane]:
    """Return the lanes granted to `hosts` in which jobs wait and which nobody serves, by name."""
    granted = {lane for host in hosts for lane in host.granted_lanes}
    lanes = sorted(lane for lane in granted if not any(host.serves(lane) for host in hosts))
    lengths = queue.queue_lengths([lane_queue(lane) for lane in lanes])
    return [UnservedLane(*pair) for pair in zip(lanes, lengths, strict=True) if pair[1]]
