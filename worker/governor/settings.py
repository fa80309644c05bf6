"""What a host's configuration says about its governor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.run_agent import AgentName
from dispatch.settings import Settings

_NAMED_NOWHERE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class GovernorSettings:
    """`commands` are programs of the host's owner, one argv per agent; `accounts` where an agent
    runs on another account than the default one; `wants_pools` whether this host follows the
    fleet's pools, and `use_pools` whether they are asked, which needs a broker."""

    commands: Mapping[AgentName, tuple[str, ...]] = field(default_factory=dict)
    accounts: Mapping[AgentName, str] = field(default_factory=dict)
    wants_pools: bool = True
    use_pools: bool = False
    lease_s: int = limits.POOL_LEASE_DEFAULT_S


def of_a_listener(chosen: GovernorSettings, *, uses_queue: bool) -> GovernorSettings:
    """Return what a listener and its runs do: the broker whose queues it serves is asked, wherever
    its address came from; without queues, one that somebody named."""
    return replace(chosen, use_pools=chosen.wants_pools) if uses_queue else chosen


def governor_settings(settings: Settings) -> GovernorSettings:
    """Return the governor's part of `settings`, whose `[agents]` are known ones. Raises
    InvalidRequest for a command of an agent that we do not know."""
    section = settings.governor
    known = {name.value for name in AgentName}
    if unknown := sorted(set(section.command) - known):
        remedy = f"one of {', '.join(sorted(known))}"
        raise InvalidRequest(
            [Problem(f"governor.command.{n}", "is no agent we know", remedy) for n in unknown]
        )
    return GovernorSettings(
        commands={AgentName(name): argv for name, argv in section.command.items()},
        accounts={AgentName(n): a.account for n, a in settings.agents.items() if a.account},
        wants_pools=section.pools,
        use_pools=section.pools and settings.source_of("fleet.redis_url") != _NAMED_NOWHERE,
        lease_s=section.lease_s,
    )
