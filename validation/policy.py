"""A host's policy: what a verified sender may have run here.

Owns the model of policy.toml; `policy_rules` decides by it. Pure: paths arrive resolved. It must
never widen a right: what is not written down is refused, and a sender's own section replaces the
one for everybody, it does not add to it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from contracts import limits
from contracts.errors import InvalidRequest, Problem
from contracts.ids import is_name
from contracts.kinds import KIND_NAMES, Kind, canonical_kind
from contracts.prompt import Harness
from contracts.sandbox import Capability
from validation.paths import path_problem

EVERYONE: Final = "*"

_Names = tuple[Annotated[str, Field(min_length=1)], ...]


class SenderPolicy(BaseModel):
    """What one sender may do. The bare default allows `run_agent` and no repository at all."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kinds: _Names = (Kind.RUN_AGENT.value,)
    lanes: _Names | None = None  # None: every lane that the host serves
    lane_jobs: bool = True  # jobs addressed to a lane rather than to this host
    agents: tuple[Harness, ...] | None = None  # None: all of them
    repo_roots: _Names = ()
    branches: _Names | None = None  # patterns for the base branch; None: all of them
    # The command of a request is a shell command with this user's rights.
    validate_command: Annotated[Literal["none", "named", "any"], Field(alias="validate")] = "none"
    require_sandbox: tuple[Capability, ...] = ()  # what must be enforced around this sender's jobs
    max_timeout_s: Annotated[int, Field(gt=0)] = limits.TIMEOUT_MAX_S
    concurrency: Annotated[int, Field(gt=0)] | None = None  # None: as many as the host has room for

    @field_validator("kinds")
    @classmethod
    def _known(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        named = tuple(canonical_kind(kind) for kind in kinds)
        if unknown := [kind for kind in named if kind not in KIND_NAMES]:
            known = ", ".join(KIND_NAMES)
            raise ValueError(f"no kind we know: {', '.join(unknown)}; one of {known}")
        return named

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
    validators: dict[str, Annotated[_Names, Field(min_length=1)]] = Field(default_factory=dict)

    @field_validator("senders")
    @classmethod
    def _nameable(cls, senders: dict[str, SenderPolicy]) -> dict[str, SenderPolicy]:
        """Refuse a section that could never hold: `*` would hold in its place, unseen."""
        if odd := [name for name in senders if name != EVERYONE and not is_name(name)]:
            raise ValueError(f"no sender can be called {', '.join(map(repr, odd))}")
        return senders

    def of(self, sender: str) -> tuple[str, SenderPolicy]:
        """Return the section that holds for `sender`: its own, else `*`, else the bare default."""
        for name in (sender, EVERYONE):
            if name in self.senders:
                return name, self.senders[name]
        return sender, SenderPolicy()

    def validator(self, command: str) -> tuple[str, tuple[str, ...]] | None:
        """Return name and argv of the validator that `command` names: its name, or its argv word
        for word as a shell writes it. None when it names none."""
        for name, argv in self.validators.items():
            if command in (name, shlex.join(argv)):
                return name, argv
        return None

    def validator_argv(self, command: str | None) -> tuple[str, ...]:
        """Return the argv of the validator that `command` names, () when it names none."""
        named = None if command is None else self.validator(command)
        return () if named is None else named[1]

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
                _remedy(detail["loc"], file),
            )
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise InvalidRequest(problems) from error


def _remedy(where: tuple[int | str, ...], file: str) -> str:
    if where[:1] == ("validators",):
        return f'write it as argv in {file}, such as ["make", "test"]: no shell reads it'
    return f"correct it in {file}"
