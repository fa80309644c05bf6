"""Whether this host holds keys for the lanes that it is to serve."""

from __future__ import annotations

from contracts import naming
from contracts.errors import KeysRefused
from dispatch.keyring import HostKeyring
from worker.announcer import Say
from worker.settings import HostSettings


def check_lane_keys(settings: HostSettings, keyring: HostKeyring, say: Say) -> None:
    """Say for which lanes no grant was accepted; raise KeysRefused when that is all of them."""
    held = keyring.audiences()
    without = [lane for lane in settings.lanes if naming.lane_audience(lane) not in held]
    if len(without) == len(settings.lanes):
        raise KeysRefused(
            f"no accepted grant covers lane {', '.join(without)}",
            code="missing",
            remedy="fleet-dispatch keys grant HOST --lanes …, then keys accept FILE here",
        )
    for lane in without:
        say("lane_without_key", lane=lane)
    for sender, purposes in keyring.missing_purposes().items():
        lacking = ",".join(sorted(purposes))
        remedy = "ask that sender for a new grant"
        say("grant_without_keys", sender=sender, purposes=lacking, remedy=remedy)
