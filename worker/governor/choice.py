"""Which governor this host has: a program of its owner, the fleet's pools, both, or none.

Owns that choice. The pools are asked where a broker was named: a person's own run on a machine that
never heard of one asks nobody.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from contracts.clock import Clock
from runagent.environment import agent_environment
from runagent.governor import CommandGovernor, Governor
from runagent.process import ProcessRunner
from worker.governor.chain import GovernorChain
from worker.settings import HostSettings


def host_governor(
    settings: HostSettings, runner: ProcessRunner, environment: Mapping[str, str], clock: Clock
) -> Governor | None:
    """Return the governor of this host, None for a host without one. Connects to nothing yet."""
    chosen = settings.governor
    governors: list[Governor] = []
    if chosen.commands:
        governors.append(
            CommandGovernor(
                chosen.commands,
                runner,
                agent_environment(environment, extra_names=settings.allowed_variables),
                cwd=os.path.abspath(os.sep),
            )
        )
    if chosen.use_pools:
        # loaded here: redis is slow to import, and only a host with a broker has pools to ask
        from dispatch.pools.ledger import Ledger
        from dispatch.queue.link import connect
        from worker.governor.pool_governor import PoolGovernor

        ledger = Ledger(connect(settings.redis_url), settings.redis_url)
        governors.append(PoolGovernor(ledger, chosen.accounts, clock, lease_s=chosen.lease_s))
    return GovernorChain(governors) if governors else None
