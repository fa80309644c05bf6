"""The listener under launchd, as a user's agent or a daemon. Written from Apple's documentation and
never run: there was no such machine."""

from __future__ import annotations

import os
import plistlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runagent.process import ProcessOutcome
from worker.service.description import RESTART_S, Service
from worker.service.supervisor import NO_MANAGER, RUNNING, STOPPED, Command, was_answered

LABEL: Final = "fleet-dispatch.listener"
_MACHINE_FOLDER: Final = Path("/Library/LaunchDaemons")
_THROTTLE_MIN_S: Final = 10  # launchd.plist(5): a shorter pause is not kept
NEVER_RUN: Final = "this service manager's part of fleet-dispatch was never run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Launchd:
    """launchd's part of a service."""

    user_folder: Path
    uid: int
    of_machine: bool = False

    @property
    def name(self) -> str:
        """See Supervisor.name."""
        return "launchd daemon" if self.of_machine else "launchd agent"

    @property
    def file(self) -> Path:
        """See Supervisor.file."""
        folder = _MACHINE_FOLDER if self.of_machine else self.user_folder
        return folder / f"{LABEL}.plist"

    def text(self, service: Service) -> str:
        """See Supervisor.text."""
        log = str(service.state_dir / "listener.log")
        keys: dict[str, Any] = {
            "Label": LABEL,
            "ProgramArguments": [str(service.program), "listen"],
            "EnvironmentVariables": service.environment,
            "WorkingDirectory": "/",
            "RunAtLoad": True,
            "KeepAlive": True,
            "ThrottleInterval": max(RESTART_S, _THROTTLE_MIN_S),
            "ExitTimeOut": service.stop_s,  # from TERM to KILL; 20 s unless it is said
            "Umask": 0o077,
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
        if service.user:
            keys["UserName"] = service.user
        text = plistlib.dumps(keys, sort_keys=False).decode("utf-8")
        # Two hyphens would end the comment.
        head, body = text.split("<plist ", 1)
        return f"{head}<!-- {service.mark.replace('-', '&#45;')} -->\n<plist {body}"

    def commands(self, what: str) -> tuple[Command, ...]:
        """See Supervisor.commands."""
        domain = "system" if self.of_machine else f"gui/{self.uid}"
        table: dict[str, tuple[Command, ...]] = {
            "start": (("launchctl", "bootstrap", domain, str(self.file)),),
            "stop": (("launchctl", "bootout", f"{domain}/{LABEL}"),),
            "forget": (),
            "state": (("launchctl", "print", f"{domain}/{LABEL}"),),
        }
        return table[what]

    def read_state(self, outcome: ProcessOutcome) -> str:
        """See Supervisor.read_state."""
        if not was_answered(outcome):
            return NO_MANAGER
        return RUNNING if b"state = running" in outcome.stdout else STOPPED

    def notes(self, service: Service, environment: Mapping[str, str]) -> tuple[str, ...]:
        """See Supervisor.notes."""
        del service, environment
        return (NEVER_RUN,)


def agents_folder(environment: Mapping[str, str]) -> Path:
    """Return where this user's launch agents are."""
    return Path(environment.get("HOME", "/")) / "Library" / "LaunchAgents"


def this_uid() -> int:
    """Return the user's number, 0 where there is none."""
    return os.getuid() if hasattr(os, "getuid") else 0
