"""Kind `shell`: one command for the host's own shell, off unless a host's policy names the kind.

`pwsh` runs it on Windows, `sh` elsewhere. The result's `exitCode` is the command's own.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, StrictInt, StrictStr

from contracts import limits


class ShellRequest(BaseModel):
    """What a sender asks for. Optional fields are left out when unset."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    command: StrictStr
    cwd: StrictStr | None = None  # absolute, below a root of the policy; unset: an empty folder
    timeoutSec: StrictInt | None = None

    @property
    def effective_timeout_s(self) -> int:
        """Return the command's limit in seconds: 1200 when unset, clamped to 1-14400."""
        wanted = limits.TIMEOUT_DEFAULT_S if self.timeoutSec is None else self.timeoutSec
        return min(max(wanted, limits.SHELL_TIMEOUT_MIN_S), limits.TIMEOUT_MAX_S)

    def to_payload(self) -> dict[str, str | int]:
        """Return the JSON object to sign: the fields that were set, and no defaults."""
        return self.model_dump(exclude_none=True)
