"""The sandbox of this host, from its settings: tried before anything relies on it.

Owns the translation of settings. The envelope has no say in it.
"""

from __future__ import annotations

from collections.abc import Mapping

from runagent.process import ProcessRunner
from runagent.sandbox.choice import Chosen, SandboxSettings, choose_sandbox
from runagent.sandbox.masks import Private
from worker.settings import HostSettings


def sandbox_settings(settings: HostSettings) -> SandboxSettings:
    """Return what the choice needs of this host's settings."""
    return SandboxSettings(
        mode=settings.sandbox_mode,
        caches=settings.sandbox_caches,
        private=Private(
            config_dir=str(settings.config_dir),
            keys_dir=str(settings.keys_dir),
            state_dir=str(settings.state_dir),
        ),
    )


def host_sandbox(
    settings: HostSettings,
    runner: ProcessRunner,
    environment: Mapping[str, str],
    *,
    recalls: bool = False,
) -> Chosen:
    """Return the sandbox of this host after trying it. A process of one run `recalls` what was
    proved here minutes ago, if nothing is other than it was then.

    Raises Unavailable, with what to do, when its configuration names one that does not work here.
    """
    return choose_sandbox(sandbox_settings(settings), runner, environment, recalls=recalls)
