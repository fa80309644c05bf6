"""The shape of config.toml, and reading it without mercy for typing errors.

Owns the sections, their defaults and their bounds. An unknown key is an error that names the key,
the file and the keys there are. Never reads the environment and never repeats a value of the file
in a message: a URL may hold a password.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
)
from pydantic_core import PydanticCustomError

from contracts.errors import InvalidRequest, Problem
from dispatch.config_agents import AgentSection, GovernorSection
from dispatch.config_http import HostSectionOfSender, HttpSection
from dispatch.config_worktrees import WorktreeSection, WorktreesSection

DEFAULT_REDIS_URL: Final = "redis://127.0.0.1:6379/0"
# The validator's own clamp: it has the same kind of deadline as an agent, and never none.
_VALIDATION_MAX_S: Final = 14_400
_CONCURRENCY_MAX: Final = 64
# Most runs end within the agent's default limit of 20 minutes; a restart waits for 15 of them.
_DRAIN_DEFAULT_S: Final = 900
_DRAIN_MAX_S: Final = 86_400  # a day: longer than two attempts and a validation at their limits


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FleetSection(_Section):
    """`[fleet]`: where the broker is, and the file of its password when no URL holds it."""

    redis_url: StrictStr = DEFAULT_REDIS_URL
    password_file: StrictStr = ""


class SenderSection(_Section):
    """`[sender]`: who signs jobs on this machine. Empty: the login name."""

    name: StrictStr = ""


class HostSection(_Section):
    """`[host]`: what a listener here calls itself and serves, and how long it lets running jobs
    finish when it is told to end. Empty name: the machine's."""

    name: StrictStr = ""
    lanes: tuple[StrictStr, ...] = ()
    concurrency: Annotated[StrictInt, Field(ge=1, le=_CONCURRENCY_MAX)] = 1
    drain_timeout_s: Annotated[StrictInt, Field(ge=0, le=_DRAIN_MAX_S)] = _DRAIN_DEFAULT_S
    # With an agent that announces retries because of a limit. The makers count requests by the
    # minute: what does not pass within one is no hiccup. At most an agent's own longest limit.
    retry_patience_s: Annotated[StrictInt, Field(ge=1, le=14_400)] = 60


class EnvironmentSection(_Section):
    """`[environment]`: names of further variables which agents inherit."""

    allow: tuple[StrictStr, ...] = ()


class SecretsSection(_Section):
    """`[secrets]`: names of further variables whose values are blanked in what leaves the host."""

    names: tuple[StrictStr, ...] = ()


def _absolute(path: str) -> str:
    """Return `path` with `~` filled in. A relative one would mean a folder of each process."""
    full = os.path.expanduser(path)
    if not os.path.isabs(full):
        raise PydanticCustomError("relative_path", "Not an absolute path")
    return full


class WatchSection(_Section):
    """`[watch]`: what is looked at around a job. `paths` adds to the defaults; `checkout` says what
    a change in the main checkout is without a sandbox that makes it unwritable."""

    paths: tuple[Annotated[StrictStr, AfterValidator(_absolute)], ...] = ()
    defaults: StrictBool = True
    checkout: Literal["risk", "note"] = "risk"


def _known_detector(name: str) -> str:
    """Return `name`. One that we do not know would detect nothing, and nobody would notice."""
    from validation.checks import DETECTOR_NAMES  # loaded where a file names one

    if name not in DETECTOR_NAMES:
        known = ", ".join(DETECTOR_NAMES)
        raise PydanticCustomError(
            "unknown_detector", "Not a detector we know ({known})", {"known": known}
        )
    return name


Detector = Annotated[StrictStr, AfterValidator(_known_detector)]


class ValidationSection(_Section):
    """`[validation]`: the limit of one validation in seconds, and further detectors. `detectors`
    is the earlier name of `detect`."""

    timeout_s: Annotated[StrictInt, Field(ge=1, le=_VALIDATION_MAX_S)] = 1_200
    detect: tuple[Detector, ...] = ()
    detectors: tuple[Detector, ...] = ()

    @property
    def named_detectors(self) -> tuple[str, ...]:
        """Return the detectors that this host names, each once, in its order."""
        return tuple(dict.fromkeys((*self.detect, *self.detectors)))


class SandboxSection(_Section):
    """`[sandbox]`: what confines agents and validators, and the tool caches left open to them.

    `caches` are paths, relative ones below the home; None: the usual ones that are there.
    """

    mode: Literal["auto", "bwrap", "landlock", "seatbelt", "none"] = "auto"
    caches: tuple[StrictStr, ...] | None = None


class ConfigFile(_Section):
    """All of config.toml. Every field has a default, so an absent file is an empty one."""

    fleet: FleetSection = FleetSection()
    sender: SenderSection = SenderSection()
    host: HostSection = HostSection()
    repo_paths: dict[StrictStr, StrictStr] = Field(default_factory=dict)
    agents: dict[StrictStr, AgentSection] = Field(default_factory=dict)
    environment: EnvironmentSection = EnvironmentSection()
    secrets: SecretsSection = SecretsSection()
    watch: WatchSection = WatchSection()
    validation: ValidationSection = ValidationSection()
    governor: GovernorSection = GovernorSection()
    worktree: WorktreeSection = WorktreeSection()
    sandbox: SandboxSection = SandboxSection()
    worktrees: WorktreesSection = WorktreesSection()
    http: HttpSection = HttpSection()
    hosts: dict[StrictStr, HostSectionOfSender] = Field(default_factory=dict)


def read_config_file(path: Path) -> tuple[ConfigFile, frozenset[str]]:
    """Return the configuration in `path` and the dotted keys that it sets; defaults if absent.

    Raises InvalidRequest naming every unknown or malformed key and the file.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ConfigFile(), frozenset()
    except UnicodeDecodeError as error:
        raise _refusal(str(path), "is not UTF-8", "save it as UTF-8") from error
    except OSError as error:
        remedy = "check its owner and permissions"
        raise _refusal(str(path), f"cannot be read: {error.strerror}", remedy) from error
    return parse_config(text, str(path))


def parse_config(text: str, file: str) -> tuple[ConfigFile, frozenset[str]]:
    """Return the configuration in TOML `text` and the dotted keys that it sets.

    `file` stands in messages only. Raises InvalidRequest with all problems at once.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _refusal(file, f"is not TOML: {error}", "see docs for its shape") from error
    except RecursionError as error:
        raise _refusal(file, "nests too deep", "flatten it") from error
    try:
        config = ConfigFile.model_validate(data)
    except ValidationError as error:
        raise InvalidRequest(_problems(error, file)) from error
    return config, frozenset(_dotted_keys(data))


def _refusal(file: str, message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([Problem(file, message, remedy)])


def _problems(error: ValidationError, file: str) -> list[Problem]:
    problems: list[Problem] = []
    for item in error.errors(include_url=False, include_input=False, include_context=False):
        key = ".".join(str(part) for part in item["loc"])
        if item["type"] == "extra_forbidden":
            known = ", ".join(_known_keys(item["loc"][:-1]))
            problems.append(Problem(key, f"is not a key of {file}", f"known here: {known}"))
        else:
            problems.append(Problem(key, f"{item['msg']}, in {file}", "correct the value"))
    return problems


def _known_keys(path: Iterable[int | str]) -> list[str]:
    """Return the keys of the section at `path`; the sections of `agents` share one shape."""
    parts = [str(part) for part in path]
    if not parts:
        return sorted(ConfigFile.model_fields)
    if parts[0] == "agents":
        return sorted(AgentSection.model_fields)
    section = ConfigFile.model_fields[parts[0]].annotation
    assert isinstance(section, type)
    assert issubclass(section, BaseModel)
    return sorted(section.model_fields)


def _dotted_keys(data: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    for key, value in data.items():
        dotted = f"{prefix}{key}"
        # [repo_paths] is one value: its keys are paths with dots of their own.
        if isinstance(value, dict) and dotted != "repo_paths":
            yield from _dotted_keys(value, f"{dotted}.")
        else:
            yield dotted
