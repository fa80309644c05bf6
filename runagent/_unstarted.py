"""A process that could not be started, on any system: it has an outcome and nothing else."""

from __future__ import annotations

from contracts.errors import Unavailable
from runagent.process import EndState, ProcessOutcome


class UnstartedProcess:
    """What could not be started: it has an outcome and nothing else."""

    pid = 0

    def __init__(self, why: str) -> None:
        self._why = why

    def write(self, data: bytes) -> None:
        """See RunningProcess.write."""
        del data
        raise Unavailable("the process was not started")

    def close_stdin(self) -> None:
        """See RunningProcess.close_stdin."""

    def abort(self, reason: str) -> None:
        """See RunningProcess.abort."""

    def wait(self) -> ProcessOutcome:
        """See RunningProcess.wait."""
        return ProcessOutcome(state=EndState.NOT_STARTED, exit_code=None, why=self._why)
