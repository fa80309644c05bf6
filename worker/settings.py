"""What one host is set to: the same TOML and the same order of sources as everywhere, read once.

With `dispatch.settings` the only place of this package that sees the environment; whatever needs
it below is handed a mapping.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from contracts.errors import InvalidRequest, KeysRefused, Problem, Refused
from contracts.run_agent import AgentName
from dispatch.broker_url import url_secrets
from dispatch.config_http import NO_HTTP, HttpSection
from dispatch.config_worktrees import WorktreesSection
from dispatch.private_files import read_private_file
from dispatch.settings import Settings, load_settings
from runagent.agents import AgentPreset
from runagent.around.watched import WatchList
from runagent.environment import is_never
from runagent.trees.worktree_options import WorktreeOptions
from validation.policy import HostPolicy, parse_policy
from validation.redaction import Redactor, secret_values
from worker.agent_presets import agent_presets
from worker.crash_points import CRASH_VARIABLE, UNARMED, CrashPoints, parse_crash_at
from worker.governor.settings import GovernorSettings, governor_settings
from worker.watch_defaults import watch_list_of

_TOML_PLACE: Final = re.compile(r"line \d+, column \d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """The settings of a listener, and of a local run, on this machine."""

    host: str
    lanes: tuple[str, ...]
    concurrency: int
    drain_timeout_s: int
    retry_patience_s: int  # with an agent that tries again by itself because of a limit
    redis_url: str  # with its password: show it masked only
    repo_paths: Mapping[str, str]
    presets: Mapping[AgentName, AgentPreset]
    governor: GovernorSettings
    allowed_variables: tuple[str, ...]  # more names that agents inherit
    secret_names: tuple[str, ...]  # more names whose values are blanked
    watch_list: WatchList
    validation_timeout_s: int
    detectors: tuple[str, ...]
    worktree_timeout_s: int
    worktree: WorktreeOptions
    worktrees: WorktreesSection
    sandbox_mode: str
    sandbox_caches: tuple[str, ...] | None
    policy_file: Path
    keys_dir: Path
    state_dir: Path
    config_dir: Path
    http: HttpSection = NO_HTTP
    uses_queue: bool = True  # False: the HTTP door alone, and no broker is ever asked
    crash: CrashPoints = UNARMED  # a test's; never set otherwise

    @property
    def journal_file(self) -> Path:
        """Return the path of the journal."""
        return self.state_dir / "journal.sqlite3"

    @property
    def witness_file(self) -> Path:
        """Return the path of the journal's witness: not in the folder of the journal, so that a
        lost or restored state folder is noticed."""
        return self.config_dir / "journal.witness"

    @property
    def agent_memory_file(self) -> Path:
        """Return the path of what is remembered of the agents' programs."""
        return self.state_dir / "agent-programs.json"

    @property
    def runs_dir(self) -> Path:
        """Return the folder of the jobs' private folders."""
        return self.state_dir / "runs"

    @property
    def other_limits_s(self) -> float:
        """Return what worktree and validation may take beside the agent: a plan has two commands at
        most, and the worktree is made once and looked at three times."""
        return float(2 * self.validation_timeout_s + 4 * self.worktree_timeout_s)

    def runtime_dir(self, job_id: str) -> Path:
        """Return the private folder of one job: shadow git, staged prompt, tails."""
        return self.runs_dir / job_id


def load_host_settings(
    *, flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None
) -> HostSettings:
    """Return the host settings of this process; `flags` as in `dispatch.settings.load_settings`.

    Raises InvalidRequest naming the key and where its value came from.
    """
    settings = host_settings(load_settings(flags=flags, environ=environ))
    environment = os.environ if environ is None else environ
    return replace(settings, crash=parse_crash_at(environment.get(CRASH_VARIABLE, "")))


def host_settings(settings: Settings) -> HostSettings:
    """Return the host's part of `settings`. Raises InvalidRequest for an agent we do not know, and
    for a variable that no agent may have."""
    _check_allowed(settings.environment.allow)
    return HostSettings(
        host=settings.host_name,
        lanes=tuple(dict.fromkeys(settings.host.lanes)),
        concurrency=settings.host.concurrency,
        drain_timeout_s=settings.host.drain_timeout_s,
        retry_patience_s=settings.host.retry_patience_s,
        redis_url=settings.redis_url,
        repo_paths=settings.repo_paths,
        presets=agent_presets(settings),
        governor=governor_settings(settings),
        allowed_variables=settings.environment.allow,
        secret_names=settings.secrets.names,
        watch_list=watch_list_of(settings),
        validation_timeout_s=settings.validation.timeout_s,
        detectors=settings.validation.named_detectors,
        worktree_timeout_s=settings.worktree.timeout_s,
        worktree=_worktree_options(settings),
        worktrees=settings.worktrees,
        sandbox_mode=settings.sandbox.mode,
        sandbox_caches=settings.sandbox.caches,
        policy_file=settings.places.policy_file,
        keys_dir=settings.places.keys_dir,
        state_dir=settings.places.state_dir,
        config_dir=settings.places.config_dir,
        http=settings.http,
    )


def load_policy(settings: HostSettings) -> HostPolicy:
    """Return the policy of this host.

    Raises Refused (code `policy`) when the file is missing, malformed, or not its owner's alone.
    """
    path = settings.policy_file
    try:
        data = read_private_file(path)
    except FileNotFoundError as error:
        raise Refused(
            f"this host has no policy: {path} is missing",
            code="policy",
            remedy="fleet-dispatch init writes one",
        ) from error
    except KeysRefused as error:
        raise Refused(error.message, code="policy", remedy=error.remedy) from error
    try:
        policy = parse_policy(tomllib.loads(data.decode("utf-8")), file=str(path))
    except InvalidRequest as error:
        raise Refused(str(error), code="policy") from error
    except (ValueError, RecursionError) as error:
        place = _TOML_PLACE.search(str(error))  # what stands there may be anybody's secret
        where = f"{path}, {place[0]}" if place else str(path)
        raise Refused(f"{where}: this is not TOML", code="policy", remedy="correct it") from error
    return policy.resolved(os.path.realpath)


def host_redactor(settings: HostSettings, environment: Mapping[str, str]) -> Redactor:
    """Return what blanks this host's secrets: values of `environment`, the broker's password."""
    values = secret_values(environment, settings.secret_names)
    return Redactor((*values, *url_secrets(settings.redis_url)))


def process_environment() -> dict[str, str]:
    """Return a copy of this process's environment, for run processes and for agents' allow-list."""
    return dict(os.environ)


def _worktree_options(settings: Settings) -> WorktreeOptions:
    chosen = settings.worktree.model_dump(exclude={"timeout_s"})
    return WorktreeOptions(**chosen, disk_floor_bytes=settings.worktrees.disk_floor_bytes)


def _check_allowed(names: tuple[str, ...]) -> None:
    """Refuse what would be left out in silence."""
    problems = [
        Problem("environment.allow", f"{name} is never handed to an agent", "take it out")
        for name in names
        if is_never(name)
    ]
    if problems:
        raise InvalidRequest(problems)
