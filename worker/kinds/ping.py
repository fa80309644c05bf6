"""Kind `ping`: who this host is, answered by the listener itself. Starts no process."""

from __future__ import annotations

from dataclasses import dataclass

from contracts.clock import Clock
from contracts.kinds import Kind
from contracts.ping import PingAnswer
from contracts.plain_result import PlainResult
from contracts.run_agent import CONTRACT_REVISION, Status
from dispatch.own_version import own_version
from dispatch.times import rfc3339
from validation.ping_request import check_ping
from validation.policy import HostPolicy
from validation.policy_rules import Question, decide
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

    def __init__(self, host: str, clock: Clock) -> None:
        self._host = host
        self._clock = clock

    def admit(self, job: VerifiedJob, policy: HostPolicy) -> PingTask:
        """See JobKind.admit."""
        claims = job.claims
        check_ping(claims.payload)
        asked = Question(sender=claims.iss, lane=claims.lane, aud=claims.aud, kind=Kind.PING)
        decide(policy, asked)
        return PingTask(claims.jti, self._host, self._clock)
