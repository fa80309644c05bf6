"""Where things are and what was chosen, each value with its source.

The only module on this side that reads the environment. Flag over environment over file over
default. The model is frozen and built once per process at the edge; below it, objects are handed
what they need. Never logs a value.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contracts.errors import InvalidRequest, Problem
from contracts.ids import checked_name
from dispatch.broker_password import check_flag_holds_no_password, url_with_password_of
from dispatch.broker_url import checked_broker_url
from dispatch.config_file import ConfigFile, read_config_file

HOME_VARIABLE: Final = "FLEET_DISPATCH_HOME"
REDIS_VARIABLE: Final = "FLEET_DISPATCH_REDIS_URL"
SANDBOX_VARIABLE: Final = "FLEET_DISPATCH_SANDBOX"
DEBUG_VARIABLE: Final = "FLEET_DISPATCH_DEBUG"

# Environment variables that stand for a setting. The home is not among them: it says where the
# file is, before there are settings.
_VARIABLES: Final = {"fleet.redis_url": REDIS_VARIABLE, "sandbox.mode": SANDBOX_VARIABLE}


class Places(BaseModel):
    """The folders and files of one installation. Nothing here is created by being named."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config_dir: Path
    state_dir: Path
    source: str  # what decided: the variable's name, or "default"

    @property
    def config_file(self) -> Path:
        """Return the path of config.toml."""
        return self.config_dir / "config.toml"

    @property
    def policy_file(self) -> Path:
        """Return the path of policy.toml."""
        return self.config_dir / "policy.toml"

    @property
    def keys_dir(self) -> Path:
        """Return the folder of the keyring."""
        return self.config_dir / "keys"

    @property
    def journal_file(self) -> Path:
        """Return the path of the listener's journal."""
        return self.state_dir / "journal.sqlite3"

    @property
    def sent_file(self) -> Path:
        """Return the path of the sender's own record of what it sent."""
        return self.state_dir / "sent.sqlite3"


class Settings(ConfigFile):
    """Everything that was chosen, with names filled in, and where each value came from.

    `sources` maps a dotted key to `flag`, `environment NAME`, `file PATH` or `default`.
    """

    places: Places
    sources: Mapping[str, str] = Field(default_factory=dict)

    @property
    def redis_url(self) -> str:
        """Return the broker's URL, password included; show `masked_url(...)` of it instead."""
        return self.fleet.redis_url

    @property
    def sender_name(self) -> str:
        """Return the name that signs jobs here."""
        return self.sender.name

    @property
    def host_name(self) -> str:
        """Return the name under which a listener here serves."""
        return self.host.name

    def source_of(self, key: str) -> str:
        """Return where the dotted `key` came from; `default` when nobody set it."""
        return self.sources.get(key, "default")


def load_settings(
    *,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Return the settings of this process.

    `flags` maps dotted keys (`fleet.redis_url`, `host.name`, …) to what the command line said;
    None means not given. `environ` is the process's environment unless a test hands another.
    Raises InvalidRequest naming the key and the flag, variable or file that holds it.
    """
    environment = os.environ if environ is None else environ
    places = find_places(environment)
    config, in_file = read_config_file(places.config_file)
    values = config.model_dump()
    sources = dict.fromkeys(sorted(in_file), f"file {places.config_file}")
    for key, variable in _VARIABLES.items():
        if environment.get(variable):
            _put(values, sources, key, environment[variable], f"environment {variable}")
    for key, value in (flags or {}).items():
        if value is not None:
            _put(values, sources, key, value, "flag")
    if sources.get("fleet.redis_url") == "flag":
        check_flag_holds_no_password(values["fleet"]["redis_url"], "--redis-url")
    if values["fleet"]["password_file"]:
        fleet = values["fleet"]
        fleet["redis_url"] = url_with_password_of(fleet["redis_url"], fleet["password_file"])
    _fill_names(values, environment)
    settings = _build(values, places, sources)
    _check(settings)
    return settings


def find_places(environ: Mapping[str, str]) -> Places:
    """Return where configuration and state are, by `environ` alone.

    Raises InvalidRequest when the home variable is not an absolute path.
    """
    root = environ.get(HOME_VARIABLE, "")
    if root:
        home = Path(root)
        if not home.is_absolute():
            raise InvalidRequest([Problem(HOME_VARIABLE, "is not absolute", "give a full path")])
        return Places(
            config_dir=home, state_dir=home / "state", source=f"environment {HOME_VARIABLE}"
        )
    if sys.platform == "win32":
        roaming, local = environ.get("APPDATA", ""), environ.get("LOCALAPPDATA", "")
        base = Path.home()
        config = Path(roaming) if roaming else base / "AppData" / "Roaming"
        state = Path(local) if local else base / "AppData" / "Local"
    else:
        config = _xdg_folder(environ, "XDG_CONFIG_HOME", ".config")
        state = _xdg_folder(environ, "XDG_STATE_HOME", ".local/state")
    return Places(
        config_dir=config / "fleet-dispatch", state_dir=state / "fleet-dispatch", source="default"
    )


def wants_traceback(environ: Mapping[str, str] | None = None) -> bool:
    """Say whether a person asked for the traceback of our own mistakes."""
    environment = os.environ if environ is None else environ
    return environment.get(DEBUG_VARIABLE, "") not in ("", "0")


def search_path(environ: Mapping[str, str] | None = None) -> str:
    """Return PATH as this process has it."""
    environment = os.environ if environ is None else environ
    return environment.get("PATH", os.defpath)


def _xdg_folder(environ: Mapping[str, str], variable: str, below_home: str) -> Path:
    """Return an XDG base folder; a relative value is ignored, as that specification says."""
    named = environ.get(variable, "")
    if named and Path(named).is_absolute():
        return Path(named)
    home = environ.get("HOME", "")
    return (Path(home) if home else Path.home()) / below_home


def _put(
    values: dict[str, Any], sources: dict[str, str], key: str, value: object, source: str
) -> None:
    section, _, name = key.partition(".")
    values[section][name] = value
    sources[key] = source


def _fill_names(values: dict[str, Any], environ: Mapping[str, str]) -> None:
    if not values["sender"]["name"]:
        values["sender"]["name"] = _as_name(_login(environ), "sender")
    if not values["host"]["name"]:
        values["host"]["name"] = _as_name(socket.gethostname().partition(".")[0], "host")


def _login(environ: Mapping[str, str]) -> str:
    """Return the login name: as the environment has it, else as the user database does."""
    named = environ.get("USER") or environ.get("LOGNAME") or environ.get("USERNAME")
    if named:
        return named
    try:
        import pwd

        return pwd.getpwuid(os.geteuid()).pw_name
    except (ImportError, KeyError):
        return ""


def _as_name(text: str, otherwise: str) -> str:
    """Return `text` made into a name: other characters become `-`, at most 64 of them."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", text).lstrip("._-")[:64]
    return name or otherwise


def _build(values: dict[str, Any], places: Places, sources: dict[str, str]) -> Settings:
    try:
        return Settings.model_validate({**values, "places": places, "sources": sources})
    except ValidationError as error:
        problems = []
        for item in error.errors(include_url=False, include_input=False, include_context=False):
            key = ".".join(str(part) for part in item["loc"])
            remedy = "correct the value"
            problems.append(Problem(key, f"{item['msg']}, from {sources.get(key, '?')}", remedy))
        raise InvalidRequest(problems) from error


def _check(settings: Settings) -> None:
    """Check what types cannot say, and name the source in each problem."""
    problems: list[Problem] = []

    def check(key: str, checker: Callable[[str, str], str], value: str) -> None:
        try:
            checker(value, key)
        except InvalidRequest as error:
            source = settings.source_of(key)
            problems.extend(
                Problem(problem.field, f"{problem.message}, from {source}", problem.remedy)
                for problem in error.problems
            )

    check("fleet.redis_url", checked_broker_url, settings.redis_url)
    check("sender.name", checked_name, settings.sender_name)
    check("host.name", checked_name, settings.host_name)
    for lane in settings.host.lanes:
        check("host.lanes", checked_name, lane)
    if problems:
        raise InvalidRequest(problems)
