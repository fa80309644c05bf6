"""The listener under systemd: a user's unit, or one of the whole machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runagent.process import ProcessOutcome
from worker.service.description import RESTART_S, Service
from worker.service.supervisor import NO_MANAGER, RUNNING, STOPPED, Command, was_answered

UNIT: Final = "fleet-dispatch.service"
_MACHINE_FOLDER: Final = Path("/etc/systemd/system")
_LINGER_FOLDER: Final = Path("/var/lib/systemd/linger")
_RUNNING_WORDS: Final = frozenset({"active", "activating", "reloading", "deactivating"})
_STOPPED_WORDS: Final = frozenset({"inactive", "failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Systemd:
    """systemd's part of a service."""

    user_folder: Path  # where the user's units are
    of_machine: bool = False

    @property
    def name(self) -> str:
        """See Supervisor.name."""
        return "systemd" if self.of_machine else "systemd --user"

    @property
    def file(self) -> Path:
        """See Supervisor.file."""
        return (_MACHINE_FOLDER if self.of_machine else self.user_folder) / UNIT

    def text(self, service: Service) -> str:
        """See Supervisor.text."""
        target = "multi-user.target" if self.of_machine else "default.target"
        lines = [
            f"# {service.mark}.",
            "# Change the settings, not this file, and install again.",
            "[Unit]",
            "Description=fleet-dispatch: takes signed jobs of its lanes and runs them here",
            *(["After=network-online.target", "Wants=network-online.target"] * self.of_machine),
            "# However often it ends, it is started again.",
            "StartLimitIntervalSec=0",
            "",
            "[Service]",
            "Type=exec",
            f"ExecStart={_quoted(str(service.program))} listen",
            *(f"Environment={_quoted(f'{k}={v}')}" for k, v in service.environment.items()),
            *([f"User={service.user}"] if service.user else []),
            "WorkingDirectory=/",
            "UMask=0077",
            "# TERM goes to the listener alone: it takes nothing new and lets its runs finish.",
            "KillMode=mixed",
            "KillSignal=SIGTERM",
            "# The drain (config.toml, drain_timeout_s), then the stop of what still runs.",
            f"TimeoutStopSec={service.stop_s}",
            "# An agent that takes all memory ends alone.",
            "OOMPolicy=continue",
            "# Each run makes a cgroup of its own below ours, which ends all of it at once.",
            "Delegate=yes",
            "Restart=always",
            f"RestartSec={RESTART_S}",
            "",
            "[Install]",
            f"WantedBy={target}",
        ]
        return "\n".join(lines) + "\n"

    def commands(self, what: str) -> tuple[Command, ...]:
        """See Supervisor.commands."""
        control = ("systemctl",) if self.of_machine else ("systemctl", "--user")
        reload = (*control, "daemon-reload")
        table: dict[str, tuple[Command, ...]] = {
            "start": (reload, (*control, "enable", "--now", UNIT)),
            "stop": ((*control, "disable", "--now", UNIT),),
            "forget": (reload,),
            "state": ((*control, "is-active", UNIT),),
        }
        return table[what]

    def read_state(self, outcome: ProcessOutcome) -> str:
        """See Supervisor.read_state. Without a systemd the command prints no state."""
        word = outcome.stdout.decode("utf-8", "replace").strip()
        if was_answered(outcome) and word in _RUNNING_WORDS:
            return RUNNING
        return STOPPED if was_answered(outcome) and word in _STOPPED_WORDS else NO_MANAGER

    def notes(self, service: Service, environment: Mapping[str, str]) -> tuple[str, ...]:
        """See Supervisor.notes."""
        del service
        user = environment.get("USER", "")
        if self.of_machine or (user and (_LINGER_FOLDER / os.path.basename(user)).exists()):
            return ()
        return ("a user's units end at logout, unless: loginctl enable-linger",)


def user_folder(environment: Mapping[str, str]) -> Path:
    """Return where the units of this user are, by `environment` alone."""
    named = environment.get("XDG_CONFIG_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path(environment.get("HOME", "/")) / ".config"
    return base / "systemd" / "user"


def _quoted(text: str) -> str:
    """Return `text` as one word of a unit: no specifier, no escape, no end of the quotes in it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
