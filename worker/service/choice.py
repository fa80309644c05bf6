"""Which service manager this machine has."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from worker.service.launchd import Launchd, agents_folder, this_uid
from worker.service.supervisor import Supervisor
from worker.service.systemd import Systemd, user_folder
from worker.service.windows import TaskScheduler


def choose_supervisor(
    environment: Mapping[str, str],
    *,
    config_dir: Path,
    of_machine: bool,
    platform: str = sys.platform,
) -> Supervisor:
    """Return the manager of `platform`: for this user, or for the whole machine."""
    if platform == "win32":
        return TaskScheduler(folder=config_dir, of_machine=of_machine)
    if platform == "darwin":
        folder = agents_folder(environment)
        return Launchd(user_folder=folder, uid=this_uid(), of_machine=of_machine)
    return Systemd(user_folder=user_folder(environment), of_machine=of_machine)
