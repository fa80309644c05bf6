"""What a kind of job is to a host: it admits a verified job, and what it admitted can be run.

Owns the two protocols. A kind decides by the host's policy alone, and never who gets the result.
"""

from __future__ import annotations

from typing import Protocol

from contracts.plain_result import Outcome
from validation.policy import HostPolicy
from worker.verification import VerifiedJob


class Task(Protocol):
    """An admitted job. It keeps the rules by which it was admitted, whatever changes meanwhile."""

    def run(self) -> Outcome:
        """Do it, and return what came of it.

        Raises Unavailable when nothing could be started, RunDied when what was started left no
        result.
        """
        ...


class JobKind(Protocol):
    """One kind of job on this host."""

    def admit(self, job: VerifiedJob, policy: HostPolicy) -> Task:
        """Return the task of `job`. Starts nothing.

        Raises InvalidRequest with all problems, or PolicyRefused with one reason.
        """
        ...
