"""A host's policy: what a verified sender may have run here.

Owns the model of policy.toml and the one decision over it. Pure: paths arrive resolved. It must
never widen a right: what is not written down is refused, and a sender's own section replaces the
one for everybody, it does not add to it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Final, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from contracts import limits
from contracts.errors import InvalidRequest, PolicyRefused, Problem
from contracts.run_agent import KIND, AgentName, RunAgentRequest
from contracts.sandbox import Capability
from validation.paths import path_problem

EVERYONE: Final = "*"

_Names = tuple[Annotated[str, Field(min_length=1)], ...]


class SenderPolicy(BaseModel):
    """What one sender may do. The bare default allows `run_agent` and no repository at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: _Names = (KIND,)
    lanes: _Names | None = None  # None: every lane that the host serves
    lane_jobs: bool = True  # jobs addressed to a lane rather than to this host
    agents: tuple[AgentName, ...] | None = None  # None: all of them
    repo_roots: _Names = ()
    # The command of a request is a shell command with this user's rights.
    validate_command: Annotated[Literal["none", "named", "any"], Field(alias="validate")] = "none"
    require_sandbox: tuple[Capability, ...] = ()  # what must be enforced around this sender's jobs
    max_timeout_s: Annotated[int, Field(gt=0)] = limits.TIMEOUT_MAX_S

    @field_validator("repo_roots")
    @classmethod
    def _absolute(cls, roots: tuple[str, ...]) -> tuple[str, ...]:
        for root in roots:
            if problem := path_problem(root, "any"):
                raise ValueError(f"a root {problem}")
        return roots


class HostPolicy(BaseModel):
    """policy.toml: a section for each sender, `*` for everyone else with a grant, and the named
    validators as argv."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    senders: dict[str, SenderPolicy] = Field(default_factory=dict)
    validators: dict[str, _Names] = Field(default_factory=dict)

    def of(self, sender: str) -> tuple[str, SenderPolicy]:
        """Return the section that holds for `sender`: its own, else `*`, else the bare default."""
        for name in (sender, EVERYONE):
            if name in self.senders:
                return name, self.senders[name]
        return sender, SenderPolicy()

    def resolved(self, resolve: Callable[[str], str]) -> HostPolicy:
        """Return the policy with each root replaced by its real path, `resolve(root)`."""
        senders = {
            name: policy.model_copy(
                update={"repo_roots": tuple(resolve(root) for root in policy.repo_roots)}
            )
            for name, policy in self.senders.items()
        }
        return self.model_copy(update={"senders": senders})


def parse_policy(data: Mapping[str, Any], *, file: str = "policy.toml") -> HostPolicy:
    """Return the policy in the parsed TOML `data` of `file`, which messages name.

    Raises InvalidRequest with every problem, each naming its key.
    """
    try:
        return HostPolicy.model_validate(dict(data))
    except ValidationError as error:
        problems = [
            Problem(
                ".".join(str(part) for part in detail["loc"]) or "policy",
                "is an unknown key" if detail["type"] == "extra_forbidden" else detail["msg"],
                f"correct it in {file}",
            )
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise InvalidRequest(problems) from error


def decide(
    policy: HostPolicy,
    *,
    sender: str,
    lane: str,
    aud: str,
    kind: str,
    request: RunAgentRequest,
    repo_realpath: str,
) -> None:
    """Return if `sender` may have this run here.

    `repo_realpath` is the request's repository after the host's path map, with every link resolved;
    the roots of `policy` must be resolved as well. Raises PolicyRefused with one reason, whose code
    is `kind`, `lane`, `lane_jobs`, `agent`, `repo_root`, `validate_command` or `timeout`.
    """
    name, rights = policy.of(sender)
    section = f'[senders."{name}"] of policy.toml'
    if kind not in rights.kinds:
        _refuse("kind", f"kind {kind} is not allowed", f"add it to kinds in {section}")
    if rights.lanes is not None and lane not in rights.lanes:
        _refuse("lane", f"lane {lane} is not allowed", f"add it to lanes in {section}")
    if aud.startswith("lane:") and not rights.lane_jobs:
        message = "this host takes only jobs that are addressed to it"
        _refuse("lane_jobs", message, f"address the host, or set lane_jobs in {section}")
    if rights.agents is not None and request.agent not in rights.agents:
        _refuse("agent", f"agent {request.agent} is not allowed", f"add it to agents in {section}")
    if not any(_is_inside(repo_realpath, root) for root in rights.repo_roots):
        message = "the repository is under none of the allowed roots"
        _refuse("repo_root", message, f"add a root to repo_roots in {section}")
    _check_command(policy, rights, request.validateCommand, section)
    if request.effective_timeout_s > rights.max_timeout_s:
        message = f"timeoutSec {request.effective_timeout_s} is above {rights.max_timeout_s}"
        _refuse("timeout", message, f"ask for less, or raise max_timeout_s in {section}")


def _check_command(
    policy: HostPolicy, rights: SenderPolicy, command: str | None, section: str
) -> None:
    if command is None or rights.validate_command == "any":
        return
    if rights.validate_command == "none":
        remedy = f'leave it out, or set validate = "any" in {section}'
        _refuse("validate_command", "validateCommand is not allowed", remedy)
    if command not in {shlex.join(argv) for argv in policy.validators.values()}:
        message = "validateCommand is none of the host's named validators"
        remedy = "use one of them word for word, or add it to [validators]"
        _refuse("validate_command", message, remedy)


def _refuse(code: str, message: str, remedy: str) -> NoReturn:
    raise PolicyRefused(message, code=code, remedy=remedy)


def _is_inside(path: str, root: str) -> bool:
    """Compare whole components, by the grammar of the host's own paths."""
    flavour: type[PurePath] = PurePosixPath if root.startswith("/") else PureWindowsPath
    inner = flavour(path)
    return inner.is_absolute() and ".." not in inner.parts and inner.is_relative_to(flavour(root))
