"""The table kind -> what this host does for it."""

from __future__ import annotations

from collections.abc import Mapping

from contracts.clock import Clock
from contracts.kinds import Kind
from worker.kinds.ping import PingKind
from worker.kinds.protocol import JobKind
from worker.kinds.run_agent import RunAgentKind
from worker.runs.runs import Runs
from worker.settings import HostSettings


def host_kinds(settings: HostSettings, runs: Runs, clock: Clock) -> Mapping[str, JobKind]:
    """Return each kind that this host knows, by its name."""
    return {
        Kind.RUN_AGENT: RunAgentKind(settings, runs),
        Kind.PING: PingKind(settings.host, clock),
    }
