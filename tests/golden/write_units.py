"""Writes ops/systemd, ops/launchd and ops/windows: the units as `service install` makes them, for a
made-up installation."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath, PureWindowsPath

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from worker.drain import longest_end_s  # noqa: E402 - the project may not be installed here
from worker.service.description import STOP_MARGIN_S, Service  # noqa: E402 - as above
from worker.service.launchd import Launchd  # noqa: E402 - as above
from worker.service.systemd import Systemd  # noqa: E402 - as above
from worker.service.windows import TaskScheduler  # noqa: E402 - as above

DRAIN_TIMEOUT_S = 900  # the default


def sample(*, windows: bool = False, user: str = "") -> Service:
    """Return a made-up installation."""
    pure = PureWindowsPath if windows else PurePosixPath
    if windows:
        program, home = r"C:\fleet\Scripts\fleet-dispatch.exe", r"C:\Users\me\AppData"
        path = r"C:\fleet\Scripts;C:\Program Files\Git\cmd;C:\Windows\System32"
    else:
        program, home = "/home/me/.fleet/bin/fleet-dispatch", "/home/me"
        path = "/home/me/.local/bin:/usr/local/bin:/usr/bin:/bin"
    return Service(
        program=pure(program),  # type: ignore[arg-type] # another system's path, as text
        config_dir=pure(home) / ("Roaming" if windows else ".config") / "fleet-dispatch",  # type: ignore[arg-type]
        state_dir=pure(home) / ("Local" if windows else ".local/state") / "fleet-dispatch",  # type: ignore[arg-type]
        search_path=path,
        stop_s=int(longest_end_s(DRAIN_TIMEOUT_S)) + STOP_MARGIN_S,
        user=user,
    )


def units() -> dict[str, str]:
    """Return what each file below ops/ must hold."""
    nowhere = Path("/nowhere")
    return {
        "systemd/fleet-dispatch.service": Systemd(user_folder=nowhere).text(sample()),
        "systemd/fleet-dispatch-system.service": Systemd(user_folder=nowhere, of_machine=True).text(
            sample(user="me")
        ),
        "launchd/fleet-dispatch.listener.plist": Launchd(user_folder=nowhere, uid=501).text(
            sample()
        ),
        "windows/fleet-dispatch.task.xml": TaskScheduler(folder=nowhere).text(sample(windows=True)),
    }


if __name__ == "__main__":
    for name, text in units().items():
        (PROJECT / "ops" / name).write_text(text, encoding="utf-8", newline="\n")
