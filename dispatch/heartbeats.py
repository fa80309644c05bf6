"""What a listener says of itself, as a sender reads it. Unsigned: for people."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from validation.inert import one_line


def _short(value: object) -> object:
    return one_line(value, 100) if isinstance(value, str) else value


def _note(value: object) -> object:
    return one_line(value, 500) if isinstance(value, str) else value


_Text = Annotated[str, BeforeValidator(_short)]


class Heartbeat(BaseModel):
    """What a listener says of itself every few seconds. Unknown fields are kept."""

    model_config = ConfigDict(frozen=True, extra="allow")

    host: _Text
    os: _Text = ""
    lanes: tuple[_Text, ...] = ()
    agents: dict[_Text, _Text] = Field(default_factory=dict)
    slots: int = 0
    free: int = 0
    jobs: tuple[_Text, ...] = ()  # the ids of those in its hands
    pid: int = 0
    contractRevision: int = 0
    version: _Text = ""
    seenAt: float = 0.0
    draining: bool = False
    held: tuple[str, ...] = ()  # signed statements of the keys that it holds
    note: Annotated[str, BeforeValidator(_note)] = ""  # what its owner should know


def read_heartbeat(name: str, text: str) -> Heartbeat | None:
    """Return the heartbeat in `text`, None when it is none of that host."""
    try:
        beat = Heartbeat.model_validate_json(text)
    except ValidationError:
        return None
    return beat if beat.host == name else None
