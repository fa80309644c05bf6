"""What an agent used, in tokens: an additive part of the result, by the CLI's own count."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

_Tokens = Annotated[StrictInt, Field(ge=0)]


class Usage(BaseModel):
    """The tokens of all attempts together, subagents included once.

    `input` is what was read anew and neither from nor into a cache; `output` includes `reasoning`.
    `costUsd` is what the CLI says it would cost, null where it says nothing.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    input: _Tokens = 0
    output: _Tokens = 0
    cacheRead: _Tokens = 0
    cacheWrite5m: _Tokens = 0
    cacheWrite1h: _Tokens = 0
    reasoning: _Tokens = 0
    models: tuple[StrictStr, ...] = ()
    costUsd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
