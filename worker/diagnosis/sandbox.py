"""Are runs confined here, and by what: asked of a canary, as every run does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from contracts.sandbox import Capability
from runagent.sandbox.protocol import Sandbox, report_of
from worker.diagnosis.finding import Finding, Machine, holds, warns
from worker.host_sandbox import host_sandbox

# No sandbox of ours closes the network: a warning that nobody can mend is no warning.
_NEVER: Final = frozenset({Capability.NETWORK.value})


def check_sandbox(machine: Machine, sandbox: Sandbox | None = None) -> Iterator[Finding]:
    """Say how the runs of this host are confined. `sandbox`: look at this one instead of trying.

    Raises Unavailable when the configuration names one that does not work here.
    """
    if not machine.is_host:
        return
    tried: tuple[str, ...] = ()
    if sandbox is None:
        chosen = host_sandbox(machine.host, machine.runner, machine.environment)
        sandbox = chosen.sandbox
        tried = tuple(f"{each.mode.value}: {each.fault}" for each in chosen.tried if each.fault)
    report = report_of(sandbox)
    words = f"mode {report.mode}, enforces {', '.join(report.enforces) or 'nothing'}"
    words += f"; not {', '.join(report.notEnforced)}" if report.notEnforced else ""
    if _NEVER.issuperset(report.notEnforced):
        yield holds("sandbox", words)
        return
    remedy = (
        "let only senders in whom you would trust with this user's shell, or install bubblewrap"
    )
    yield warns("sandbox", "; ".join((words, *tried)), remedy)
