"""Kind `ping`: who this host is, answered by the listener itself. Starts no process."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.clock import Clock
from contracts.ping import PingAnswer
from contracts.plain_result import PlainResult
from contracts.run_agent import CONTRACT_REVISION, Status
from dispatch.own_version import own_version
from dispatch.times import rfc3339
from validation.policy import HostPolicy
from validation.policy_rules import decide
from worker.kinds.questions import question_of
from worker.settings import HostSettings
from worker.verification import VerifiedJob


@dataclass(frozen=True, slots=True)
class PingTask:
    """An admitted question."""

    job_id: str
    host: str
    clock: Clock

    def run(self) -> PlainResult:
        """See Task.run."""
        answer = PingAnswer(
            host=self.host,
            version=own_version(),
            contractRevision=CONTRACT_REVISION,
            time=rfc3339(self.clock.wall()),
        )
        return PlainResult(
            status=Status.COMPLETED,
            summary=f"{answer.host} answered: version {answer.version}, {answer.time}",
            exitCode=0,
            stdoutTail=answer.model_dump_json(),
            jobId=self.job_id,
            host=self.host,
        )


class PingKind:
    """Pings of this host."""

    def __init__(self, settings: HostSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock

    def admit(self, job: VerifiedJob, policy: HostPolicy) -> PingTask:
        """See JobKind.admit."""
        decide(policy, question_of(job.claims, self._settings))
        return PingTask(job.claims.jti, self._settings.host, self._clock)
