"""The one error tree of the house.

    FleetError                 kind, retryable, a message that is safe to show, an exit code
    |- InvalidRequest          what was asked for is malformed: every problem at once
    |- Refused                 well-formed, and the answer is no
    |  |- EnvelopeRefused      signature, audience, time or replay
    |  |- PolicyRefused        the host's policy says no
    |  |- RepositoryRefused    no worktree can or may be made of this repository
    |  `- KeysRefused          a key file is missing, foreign, or readable by others
    |- CouldNotCheck           we do not know the answer: never to be read as a yes or a no
    |- Unavailable             a service or a program is not there now; trying again may help
    |  |- DiskFull             a disk has no room left
    |  |- AnswerLost           it was reached, and whether it did what was asked is not known
    |  |  `- BulkStopped       of many jobs some were sent, and of the rest it is said
    |  `- NotInstalled         a program that a job needs is not on this host
    |- LaunchRefused           the read barrier: the staged prompt could not be read back
    |- WaitTimedOut            no result yet
    `- Interrupted             a person or a signal stopped us

Lower-layer errors are translated at the seam where they appear and chained (`raise … from error`).
A message never carries a payload, a prompt, an environment value, a password or a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """The exit codes of every verb: one table for people and for scripts."""

    OK = 0  # completed, or the verb did what it says
    BUG = 1  # our mistake
    REFUSED = 2  # refused or invalid: nothing was started
    WAIT_TIMED_OUT = 3
    FAILED = 4  # status failed or timed_out
    RATE_LIMITED = 5
    APPROVAL_REQUIRED = 6


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a request: the field, what is wrong, and how to mend it."""

    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message} ({self.remedy})"


class FleetError(Exception):
    """Base of everything this product raises on purpose.

    `kind` is a stable machine-readable word; `retryable` says whether the same call may succeed
    later without a change; `str(error)` is safe to show to anyone.
    """

    kind: ClassVar[str] = "error"
    retryable: ClassVar[bool] = False
    exit_code: ClassVar[ExitCode] = ExitCode.BUG

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(f"{message} ({remedy})" if remedy else message)
        self.message = message
        self.remedy = remedy


class InvalidRequest(FleetError):
    """A request that is malformed. `problems` holds all of them, never just the first."""

    kind = "invalid_request"
    exit_code = ExitCode.REFUSED

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems) or "invalid request")


class Refused(FleetError):
    """A well-formed request to which the answer is no. `code` is a stable word for the reason."""

    kind = "refused"
    exit_code = ExitCode.REFUSED

    def __init__(self, message: str, *, code: str = "refused", remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.code = code


class EnvelopeRefused(Refused):
    """An envelope that does not verify. The outer message is always the same short one;
    `code` and `message` are for this host's own log."""

    kind = "envelope_refused"


class PolicyRefused(Refused):
    """The host's policy does not allow this sender to do this."""

    kind = "policy_refused"


class RepositoryRefused(Refused):
    """No worktree can or may be made: missing, bare, without commits, base unknown, name taken."""

    kind = "repository_refused"


class KeysRefused(Refused):
    """A key file is missing, expired, foreign, or its permissions let others read it."""

    kind = "keys_refused"


class CouldNotCheck(FleetError):
    """The check itself failed, so the answer is unknown."""

    kind = "could_not_check"
    retryable = True
    exit_code = ExitCode.FAILED


class Unavailable(FleetError):
    """A broker, a disk or a program is not there now."""

    kind = "unavailable"
    retryable = True
    exit_code = ExitCode.REFUSED


class DiskFull(Unavailable):
    """A disk has no room left. Its message says ENOSPC, the word that people search for."""

    kind = "disk_full"


class AnswerLost(Unavailable):
    """A service was reached and its answer was not: what was asked may have been done."""

    kind = "answer_lost"
    exit_code = ExitCode.WAIT_TIMED_OUT  # not 2, which says that nothing was started


class BulkStopped(AnswerLost):
    """Many jobs were to be queued, and it ended in its middle.

    `jobs` are what a caller holds of those that stand in its record, in the order of the payloads;
    the payloads from number `unsent` on (from 0) were neither signed nor sent.
    """

    kind = "bulk_stopped"

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        jobs: Sequence[Sequence[object]] = (),
        unsent: int = 0,
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.jobs = jobs
        self.unsent = unsent


class NotInstalled(Unavailable):
    """A program that a job needs is not on this host."""

    kind = "not_installed"


class LaunchRefused(FleetError):
    """The staged prompt could not be read back, so no agent was started."""

    kind = "launch_refused"
    exit_code = ExitCode.FAILED


class WaitTimedOut(FleetError):
    """The wait ended before a result was there. The job goes on."""

    kind = "wait_timed_out"
    retryable = True
    exit_code = ExitCode.WAIT_TIMED_OUT


class Interrupted(FleetError):
    """A person or a signal stopped us."""

    kind = "interrupted"
    retryable = True
    exit_code = ExitCode.FAILED
