"""Which agents this machine has, asked once: for `init` and `doctor`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from runagent.process import system_runner
from worker.probes import Probes
from worker.settings import load_host_settings, process_environment


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
