"""Which agents this machine has, and how each is started: for `init` and `config show`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from runagent.process import system_runner
from worker.probes import Probes
from worker.settings import load_host_settings, process_environment


def agent_presets() -> dict[str, dict[str, list[str]]]:
    """Return agent -> {"command", "flags"} as a run here would start it, defaults included."""
    presets = load_host_settings().presets
    return {
        name.value: {"command": list(preset.command), "flags": list(preset.flags)}
        for name, preset in presets.items()
    }


def find_agents() -> dict[str, str]:
    """Return agent -> version for each agent on PATH; "" for one that does not state one.

    Each is asked through the process seam with a limit of 10 s.
    """
    settings = load_host_settings()
    with tempfile.TemporaryDirectory(prefix="fleet-dispatch-") as folder:
        probes = Probes(
            system_runner(), settings.presets, process_environment(), folder=Path(folder)
        )
        probes.look()
        return probes.found()
