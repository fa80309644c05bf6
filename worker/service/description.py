"""What a service manager is told: which program, whose, with which environment, and how long it may
take to end. One value for systemd, launchd and Windows; holds no secret, and writes nothing."""

from __future__ import annotations

import math
import os
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from contracts.errors import InvalidRequest, Problem, Refused
from dispatch.settings import HOME_VARIABLE
from worker.drain import longest_end_s
from worker.settings import HostSettings

PROGRAM: Final = "fleet-dispatch"
# Beyond the listener's own longest end, so that the manager never kills what is still handing in.
STOP_MARGIN_S: Final = 30
RESTART_S: Final = 5  # between an end and the next start: no storm while something is missing
# What decides where settings and state are; a service starts without them.
_PLACES: Final = (HOME_VARIABLE, "XDG_CONFIG_HOME", "XDG_STATE_HOME")
_MARK: Final = "Written by `fleet-dispatch service install`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The listener of one installation, as a service manager starts it."""

    program: Path  # the console script, absolute: never `python -m` from somebody's folder
    config_dir: Path
    state_dir: Path
    search_path: str  # where agents and git are found; a service manager's own PATH is short
    stop_s: int  # from TERM to KILL
    places: Mapping[str, str] = field(default_factory=dict)  # variables that name its folders
    user: str = ""  # for a service of the whole machine: who runs it

    @property
    def mark(self) -> str:
        """Return the words by which a unit is known as this installation's own."""
        return f"{_MARK} for {self.config_dir}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that the listener is started with; never a URL or a key."""
        return {"PYTHONSAFEPATH": "1", "PATH": self.search_path, **self.places}


def describe_service(
    settings: HostSettings, environment: Mapping[str, str], *, of_machine: bool
) -> Service:
    """Return the service of this installation; `of_machine`: not only while its user is there.

    Raises InvalidRequest when a path cannot stand in a unit, Refused when the console script is not
    installed. Whether it may be installed is `check_lanes`: one that serves nothing any more can
    still be looked at and taken away.
    """
    service = Service(
        program=find_program(),
        config_dir=settings.config_dir,
        state_dir=settings.state_dir,
        search_path=_absolute_only(environment.get("PATH", os.defpath)),
        stop_s=math.ceil(longest_end_s(settings.drain_timeout_s)) + STOP_MARGIN_S,
        places={name: environment[name] for name in _PLACES if environment.get(name)},
        user=_owner_of(settings.config_dir) if of_machine else "",
    )
    _check_words(service)
    return service


def check_lanes(settings: HostSettings) -> None:
    """Raise InvalidRequest when the settings name no lane: the listener would not start."""
    if not settings.lanes:
        remedy = 'set lanes = ["…"] in [host] of config.toml: a service has no --lane'
        raise InvalidRequest([Problem("host.lanes", "is empty", remedy)])


def find_program(called_as: str | None = None) -> Path:
    """Return the console script of this installation. Raises Refused when there is none."""
    scripts = Path(sysconfig.get_path("scripts"))
    suffix = ".exe" if sys.platform == "win32" else ""
    called = Path(sys.argv[0] if called_as is None else called_as)
    candidates = [scripts / f"{PROGRAM}{suffix}", called]
    for path in candidates:
        if path.stem == PROGRAM and path.is_absolute() and os.access(path, os.X_OK):
            return path
    found = shutil.which(PROGRAM)
    if found is None:
        raise Refused(
            f"the command {PROGRAM} is not installed beside this interpreter",
            code="no_program",
            remedy="install the package with pip and use its command",
        )
    return Path(found).absolute()


def _absolute_only(search_path: str) -> str:
    """Return PATH without relative entries: a service starts in another folder."""
    entries = [entry for entry in search_path.split(os.pathsep) if os.path.isabs(entry)]
    return os.pathsep.join(dict.fromkeys(entries))


def _owner_of(folder: Path) -> str:
    """Return the login name of who owns the settings: that user's keys are what it runs with."""
    if sys.platform == "win32":
        return ""  # a task runs as who registers it
    try:
        return folder.owner()
    except (OSError, KeyError) as error:
        raise Refused(
            f"nobody owns {folder}", code="no_settings", remedy="fleet-dispatch init"
        ) from error


def _check_words(service: Service) -> None:
    """Refuse what would end a line of a unit, or an attribute, and start another one."""
    words = {
        "program": str(service.program),
        "config": str(service.config_dir),
        "user": service.user,
        **service.environment,
    }
    bad = [name for name, text in words.items() if not text.isprintable()]
    # systemd takes no program whose path has one of these, quoted or not.
    if sys.platform != "win32" and set("\"'\\") & set(words["program"]):
        bad.append("program")
    if bad:
        problem, remedy = "has characters that no unit can hold", "choose another path"
        raise InvalidRequest([Problem(name, problem, remedy) for name in bad])
