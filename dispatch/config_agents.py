"""The sections of config.toml that concern agents: how one is started, and who is asked before.

Owns their defaults and bounds. What an agent's CLI makes of its options is not known here.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_core import PydanticCustomError

from contracts import limits
from contracts.ids import is_name

_MODEL: Final = r"^[A-Za-z0-9][A-Za-z0-9 ()._:/@+-]{0,127}$"  # never an option
_VARIABLE: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"
_EXTRA_ARGS_MAX: Final = 32
_LEASE_MIN_S: Final = 2  # three renewals within it
_LEASE_MAX_S: Final = 3_600


def _account(name: str) -> str:
    if name and not is_name(name):
        raise PydanticCustomError("account", "Not a name: letters, digits, '.', '_', '-'")
    return name


class AgentSection(BaseModel):
    """`[agents.NAME]`: how an agent is started here. None: the agent's own default.

    `variant` chooses another CLI behind the same name, `model` its model, `extra_args` further
    words that the adapter allows, `env` names of variables that this agent alone inherits, and
    `account` the name under which the fleet counts what it uses here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: tuple[StrictStr, ...] | None = None
    flags: tuple[StrictStr, ...] | None = None
    variant: StrictStr = ""
    model: Annotated[StrictStr, Field(pattern=_MODEL)] | None = None
    extra_args: Annotated[tuple[StrictStr, ...], Field(max_length=_EXTRA_ARGS_MAX)] = ()
    env: tuple[Annotated[StrictStr, Field(pattern=_VARIABLE)], ...] = ()
    account: Annotated[StrictStr, AfterValidator(_account)] = ""


class GovernorSection(BaseModel):
    """`[governor]`: who is asked before an agent starts. `pools`: the fleet's pools at the broker;
    `lease_s`: after which what a killed run held is given back; `command`: agent -> argv of a
    program of this host's owner."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pools: StrictBool = True
    lease_s: Annotated[StrictInt, Field(ge=_LEASE_MIN_S, le=_LEASE_MAX_S)] = (
        limits.POOL_LEASE_DEFAULT_S
    )
    command: dict[StrictStr, Annotated[tuple[StrictStr, ...], Field(min_length=1)]] = Field(
        default_factory=dict
    )
