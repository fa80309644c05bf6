"""Which agents this host has: each one that is on PATH, with the version that it states.

Asked through the process seam with a short limit, in the background, and remembered. An agent that
is not there is left out; one that does not answer is there with an empty version.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from contracts.run_agent import AgentName
from runagent.agents import AgentPreset
from runagent.environment import agent_environment
from runagent.process import EndState, ProcessRunner, ProcessSpec, run

_LIMIT_S: Final = 10.0
_OUTPUT_MAX_BYTES: Final = 4_096
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+[A-Za-z0-9.+-]{0,32}")


class Probes:
    """The agents found on this host so far."""

    def __init__(
        self,
        runner: ProcessRunner,
        presets: Mapping[AgentName, AgentPreset],
        environment: Mapping[str, str],
        *,
        folder: Path,
    ) -> None:
        self._runner = runner
        self._presets = presets
        self._environment = agent_environment(environment, extra_names=(), overrides={})
        self._folder = folder
        self._lock = threading.Lock()
        self._found: dict[str, str] = {}

    def found(self) -> dict[str, str]:
        """Return agent -> version as known now."""
        with self._lock:
            return dict(self._found)

    def look(self) -> None:
        """Ask every agent once; each probe takes 10 s at most."""
        for name, preset in self._presets.items():
            if shutil.which(preset.command[0], path=self._environment.get("PATH")) is None:
                continue
            version = self._version(preset)
            with self._lock:
                self._found[name.value] = version

    def _version(self, preset: AgentPreset) -> str:
        spec = ProcessSpec(
            argv=(*preset.command, "--version"),
            cwd=str(self._folder),
            env=self._environment,
            timeout_s=_LIMIT_S,
            grace_s=1.0,
            tail_bytes=_OUTPUT_MAX_BYTES,
        )
        outcome = run(self._runner, spec)
        if outcome.state is not EndState.EXITED or outcome.exit_code != 0:
            return ""
        match = _VERSION.search(outcome.stdout.decode("utf-8", "replace"))
        return match.group() if match else ""
