"""Kind `prompt`: one prompt to an agent's CLI, without a repository and without a worktree.

The CLI works in an empty folder of its own; what it answers is the result's `stdoutTail`.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr

from contracts import limits


class Harness(StrEnum):
    """What can be asked: the agents of `run_agent`, and ollama."""

    CODEX = "codex"
    CLAUDE = "claude"
    GEMINI = "gemini"
    GROK = "grok"
    OLLAMA = "ollama"


class PromptRequest(BaseModel):
    """What a sender asks for. Optional fields are left out when unset; ollama needs a model."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    agent: StrictStr
    prompt: StrictStr
    model: StrictStr | None = None
    timeoutSec: StrictInt | None = None

    @property
    def effective_timeout_s(self) -> int:
        """Return the limit in seconds: 1200 when unset, clamped to 1-14400."""
        wanted = limits.TIMEOUT_DEFAULT_S if self.timeoutSec is None else self.timeoutSec
        return min(max(wanted, 1), limits.TIMEOUT_MAX_S)

    def to_payload(self) -> dict[str, str | int]:
        """Return the JSON object to sign: the fields that were set, and no defaults."""
        return self.model_dump(exclude_none=True)
