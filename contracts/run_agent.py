"""The frozen contract of kind `run_agent`: request and result, exactly as agreed with its users.

Additive changes only: a field may be added, none may be removed, renamed or re-typed; a breaking
change needs a new kind. The golden schemas in `contracts/schema/` hold this. Attribute names are
the wire keys themselves, camelCase and snake_case as the contract has them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from contracts import limits
from contracts.agent_name import AgentName as AgentName  # noqa: PLC0414 - named here, too
from contracts.reason import Reason
from contracts.sandbox import SandboxReport
from contracts.status import Status as Status  # noqa: PLC0414 - named here, too
from contracts.usage import Usage

KIND = "run_agent"
CONTRACT_REVISION = 1  # counts additive changes of the request; a heartbeat names it


class RunAgentRequest(BaseModel):
    """What a sender asks for. Optional fields are left out when unset: defaults are read through
    the `effective_*` properties and never written into the signed bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agent: StrictStr
    task: StrictStr
    repo: StrictStr
    ticket: StrictStr
    branch: StrictStr | None = None
    mode: StrictStr | None = None
    timeoutSec: StrictInt | None = None
    validateCommand: StrictStr | None = None

    DEFAULT_BRANCH: ClassVar[str] = "master"
    DEFAULT_MODE: ClassVar[str] = "build"

    @property
    def effective_mode(self) -> str:
        """Return the routing hint: `build` when unset. It is recorded and changes nothing else."""
        return self.DEFAULT_MODE if self.mode is None else self.mode

    @property
    def effective_timeout_s(self) -> int:
        """Return the agent's limit per attempt in seconds: 1200 when unset, clamped to 60-14400."""
        wanted = limits.TIMEOUT_DEFAULT_S if self.timeoutSec is None else self.timeoutSec
        return min(max(wanted, limits.TIMEOUT_MIN_S), limits.TIMEOUT_MAX_S)

    def to_payload(self) -> dict[str, str | int]:
        """Return the JSON object to sign: the fields that were set, and no defaults."""
        return self.model_dump(exclude_none=True)


class Risk(BaseModel):
    """One recorded risk: a stable `code` for programs and the `message` for people."""

    model_config = ConfigDict(frozen=True, extra="allow")

    code: StrictStr
    message: StrictStr


class Rename(BaseModel):
    """A renamed path; both sides relative to the worktree, forward slashes."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    source: Annotated[StrictStr, Field(alias="from")]
    target: Annotated[StrictStr, Field(alias="to")]


class CommandState(StrEnum):
    """What became of one validation command: four states which are never mixed up."""

    NOT_RUN = "not_run"
    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


class ValidationCommand(BaseModel):
    """One command of the validation; `exit` is None when there was no exit code."""

    model_config = ConfigDict(frozen=True, extra="allow")

    command: StrictStr
    exit: StrictInt | None = None
    seconds: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    state: CommandState = CommandState.NOT_RUN


class ValidationSource(StrEnum):
    """Where the validation commands came from."""

    OVERRIDE = "validateCommand"
    AUTODETECTED = "autodetected"
    NONE = "none"


class Validation(BaseModel):
    """What the host ran to judge the work. `ran` is true when every command was really run."""

    model_config = ConfigDict(frozen=True, extra="allow")

    ran: StrictBool = False
    source: ValidationSource = ValidationSource.NONE
    commands: tuple[ValidationCommand, ...] = ()


class RunAgentResult(BaseModel):
    """What the host found. The first nine fields are the frozen ones: always present, never null.

    Readers keep unknown fields, so that an older reader passes on what a newer host wrote.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    status: Status
    summary: StrictStr
    changed_files: tuple[StrictStr, ...]
    tests_attempted: tuple[StrictStr, ...]
    known_risks: tuple[StrictStr, ...]
    needs_human_review: StrictBool
    agent: StrictStr
    durationSeconds: Annotated[StrictFloat, Field(allow_inf_nan=False)]  # JSON has no infinity
    worktreePath: StrictStr

    # Additive from here on.
    jobId: StrictStr = ""
    mode: StrictStr = ""
    host: StrictStr = ""
    attempts: StrictInt = 0
    baseRef: StrictStr = ""
    baseCommit: StrictStr = ""
    headCommit: StrictStr = ""
    branch: StrictStr = ""
    sessionId: StrictStr = ""
    exitCode: StrictInt | None = None
    agent_changed_files: tuple[StrictStr, ...] = ()
    validator_changed_files: tuple[StrictStr, ...] = ()
    ignored_changed_files: tuple[StrictStr, ...] = Field(
        default=(),
        description="the agent's changes of what git ignores, a folder that is ignored whole as "
        "one; no part of the other lists; at most 500",
    )
    ignored_changed_files_total: StrictInt = 0
    changed_files_total: StrictInt = 0
    renames: tuple[Rename, ...] = ()
    paths_base64: dict[StrictStr, StrictStr] = Field(
        default_factory=dict,
        description="the bytes of each path shown with \\x escapes because it is not UTF-8",
    )
    risks: tuple[Risk, ...] = ()
    notes: tuple[Risk, ...] = Field(
        default=(), description="what is worth knowing and no reason for a review"
    )
    validation: Validation = Validation()
    sandbox: SandboxReport = SandboxReport()
    reason: Reason | None = Field(
        default=None, description="why the agent's run ended as it did; null after a clean one"
    )
    usage: Usage | None = Field(
        default=None, description="of all attempts together; null when the CLI said nothing"
    )
    agentVersion: StrictStr = Field(
        default="", description="of the agent's CLI, as the host found it"
    )
    unknown_events: StrictInt = Field(
        default=0, description="lines of the agent's stream that this version could not read"
    )

    def to_json(self, *, indent: int | None = None) -> str:
        """Return the result's JSON, keys as on the wire, on one line unless `indent` is given."""
        return self.model_dump_json(indent=indent, by_alias=True)
