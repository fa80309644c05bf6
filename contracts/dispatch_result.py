"""What travels back over the queue: the outer result of any kind, and its signed claims."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictBool, StrictInt, StrictStr

from contracts.run_agent import Risk, Status


class DispatchResult(BaseModel):
    """The result of one job on one host; `ok` means that its status is `completed`.

    For `run_agent`, `stdoutTail` is the run_agent result's JSON, verbatim and whole. For every
    other kind it is what was printed, `exitCode` the exit code of what was run, and `status`,
    `summary` and `risks` say how it ended.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    jobId: StrictStr
    kind: StrictStr
    target: StrictStr
    ok: StrictBool
    exitCode: StrictInt
    stdoutTail: StrictStr
    stderrTail: StrictStr = ""
    startedAt: StrictStr = ""  # RFC 3339, UTC
    finishedAt: StrictStr = ""

    # Additive from here on; empty for `run_agent`, whose own result says it.
    status: Status | None = None
    summary: StrictStr = ""
    risks: tuple[Risk, ...] = ()


class ResultClaims(BaseModel):
    """The signed statement of a host about one job, bound to the exact bytes of that job."""

    model_config = ConfigDict(frozen=True, extra="allow")

    iss: StrictStr  # the host
    aud: StrictStr  # the sender
    jti: StrictStr
    iat: StrictInt
    jobSha256: StrictStr  # hex digest of the job's payload bytes
    payload: DispatchResult
