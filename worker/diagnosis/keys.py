"""Has this host the keys and the policy that its lanes need, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts import naming
from dispatch.keyring import HostKeyring
from worker.diagnosis.finding import Finding, Machine, fails, holds, warns
from worker.settings import load_policy

_DAY_S: Final = 86_400
_SOON_S: Final = 30 * _DAY_S  # a month to carry a new grant over


def check_grants(machine: Machine) -> Iterator[Finding]:
    """Compare the accepted grants with the lanes. Raises KeysRefused when there is none."""
    if not machine.is_host:
        yield holds("grants", "no lane is served here (host.lanes is empty)")
        return
    host, now = machine.host, machine.clock.wall()
    ring = HostKeyring.load(host.keys_dir, host.host, machine.clock)
    usable = [grant for grant in ring.grants if grant.is_valid_at(now)]
    covered = {lane for grant in usable for lane in grant.lanes}
    missing = [lane for lane in host.lanes if lane not in covered]
    remedy = f"fleet-dispatch keys grant {host.host} --lanes … there, keys accept FILE here"
    if missing:
        what = f"no usable grant covers {', '.join(naming.lane_audience(x) for x in missing)}"
        yield fails("grants", what, remedy)
        return
    for sender, purposes in ring.missing_purposes().items():
        what = f"the grant of {sender} has no key for {', '.join(sorted(purposes))}"
        yield warns("grants", what, "ask that sender for a new grant: keys grant there")
    ends = min(grant.exp for grant in usable)
    days = int((ends - now) // _DAY_S)
    words = f"{len(usable)} cover every lane; the first expires in {days} days"
    yield warns("grants", words, remedy) if ends - now < _SOON_S else holds("grants", words)


def check_policy(machine: Machine) -> Iterator[Finding]:
    """Read the policy. Raises Refused when it cannot be."""
    if not machine.is_host:
        return
    policy = load_policy(machine.host)
    if any(rights.repo_roots for rights in policy.senders.values()):
        yield holds("policy", f"{len(policy.senders)} senders' rights are written down")
    else:
        remedy = f"add repo_roots in {machine.host.policy_file}"
        yield fails("policy", "no sender may use any repository", remedy)
