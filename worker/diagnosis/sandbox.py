"""Are runs confined here, and by what."""

from __future__ import annotations

from collections.abc import Iterator

from runagent.sandbox.none import NoSandbox
from runagent.sandbox.protocol import Sandbox, report_of
from worker.diagnosis.finding import Finding, Machine, holds, warns


def check_sandbox(machine: Machine, sandbox: Sandbox | None = None) -> Iterator[Finding]:
    """Say how the runs of this host are confined. `sandbox` is the one that they get."""
    if not machine.is_host:
        return
    report = report_of(sandbox or NoSandbox())
    words = f"mode {report.mode}, enforces {', '.join(report.enforces) or 'nothing'}"
    if report.notEnforced:
        remedy = "let only senders in whom you would trust with this user's shell"
        yield warns("sandbox", f"{words}; not {', '.join(report.notEnforced)}", remedy)
    else:
        yield holds("sandbox", words)
