"""May this sender have this run here: one list of rules, asked for a decision and for its account.

Owns every rule over a policy. Pure: the paths in it arrive resolved. Whoever decides and whoever
explains reads the same answers, so that the two can never differ. No message repeats a path or a
command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Final

from contracts.errors import PolicyRefused
from contracts.kinds import canonical_kind
from validation.policy import HostPolicy, SenderPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One verified job as the rules see it; None is what its kind or its payload does not name.

    `folder` is the repository or working folder on this host with every link resolved; the roots
    of the policy must be resolved as well. `branch` is the base branch, "" when the host is to
    choose it, and `timeout_s` the limit as it will be used.
    """

    sender: str
    lane: str
    aud: str
    kind: str
    agent: str | None = None
    folder: str | None = None
    branch: str | None = None
    validate_command: str | None = None
    timeout_s: int | None = None
    is_unconfined: bool = False  # its kind starts something outside of the host's sandbox
    host_confines: bool = False  # the host's configuration names a sandbox that must be there


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleAnswer:
    """What one rule says. `rule` is the reason's code when it does not allow the job; `remedy` is
    empty when it does."""

    rule: str
    allows: bool
    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    """The section that holds, by its name for people, and the policy it stands in."""

    policy: HostPolicy
    rights: SenderPolicy
    title: str


def explain(policy: HostPolicy, question: Question) -> tuple[RuleAnswer, ...]:
    """Return what each rule of `policy` says to `question`, in the order in which they decide."""
    name, rights = policy.of(question.sender)
    section = _Section(policy=policy, rights=rights, title=section_title(name))
    return tuple(rule(section, question) for rule in _RULES)


def decide(policy: HostPolicy, question: Question) -> None:
    """Return if every rule allows it. Raises PolicyRefused with the first that does not, whose
    code is the rule's name."""
    for answer in explain(policy, question):
        if not answer.allows:
            raise PolicyRefused(answer.why, code=answer.rule, remedy=answer.remedy)


def section_title(name: str) -> str:
    """Return how messages name the section of `name`."""
    return f'[senders."{name}"] of policy.toml'


def _kind(section: _Section, question: Question) -> RuleAnswer:
    if canonical_kind(question.kind) in section.rights.kinds:
        return _yes("kind", f"kind {question.kind} is allowed")
    return _no(
        "kind", f"kind {question.kind} is not allowed", f"add it to kinds in {section.title}"
    )


def _lane(section: _Section, question: Question) -> RuleAnswer:
    if section.rights.lanes is None or question.lane in section.rights.lanes:
        return _yes("lane", f"lane {question.lane} is allowed")
    return _no(
        "lane", f"lane {question.lane} is not allowed", f"add it to lanes in {section.title}"
    )


def _lane_jobs(section: _Section, question: Question) -> RuleAnswer:
    if not question.aud.startswith("lane:"):
        return _yes("lane_jobs", "it is addressed to this host alone")
    if section.rights.lane_jobs:
        return _yes("lane_jobs", "jobs for whoever of the lane is free are allowed")
    message = "this host takes only jobs that are addressed to it"
    return _no("lane_jobs", message, f"address the host, or set lane_jobs in {section.title}")


def _agent(section: _Section, question: Question) -> RuleAnswer:
    if question.agent is None:
        return _yes("agent", "it names no agent")
    if section.rights.agents is None or question.agent in section.rights.agents:
        return _yes("agent", f"agent {question.agent} is allowed")
    message = f"agent {question.agent} is not allowed"
    return _no("agent", message, f"add it to agents in {section.title}")


def _repo_root(section: _Section, question: Question) -> RuleAnswer:
    if question.folder is None:
        return _yes("repo_root", "it names no folder of this host")
    if any(_is_inside(question.folder, root) for root in section.rights.repo_roots):
        return _yes("repo_root", "its real path is under an allowed root")
    message = "the repository is under none of the allowed roots"
    remedy = f"add a root to repo_roots in {section.title}; links are followed first"
    return _no("repo_root", message, remedy)


def _branch(section: _Section, question: Question) -> RuleAnswer:
    branches = section.rights.branches
    if question.branch is None:
        return _yes("branch", "it names no branch")
    if branches is None or any(fnmatchcase(question.branch, item) for item in branches):
        which = question.branch or "of the host's choice"
        return _yes("branch", f"base branch {which} is allowed")
    if not question.branch:
        message = "it names no base branch, and not every one is allowed"
        return _no("branch", message, f"name one that matches branches in {section.title}")
    message = f"base branch {question.branch} is not allowed"
    return _no("branch", message, f"add a pattern to branches in {section.title}")


def _validate_command(section: _Section, question: Question) -> RuleAnswer:
    rule, allowed, command = (
        "validate_command",
        section.rights.validate_command,
        question.validate_command,
    )
    if command is None:
        return _yes(rule, "it brings no validateCommand")
    if allowed == "none":
        remedy = f'leave it out, or set validate = "named" in {section.title}'
        return _no(rule, "validateCommand is not allowed", remedy)
    named = section.policy.validator(command)
    if named is not None:
        return _yes(rule, f"it names the validator {named[0]}, which is started without a shell")
    if allowed == "any":
        return _yes(rule, "any command is allowed")
    message = "validateCommand is none of the host's named validators"
    return _no(rule, message, "use a name in [validators] of policy.toml, or add it there")


def _timeout(section: _Section, question: Question) -> RuleAnswer:
    most, asked = section.rights.max_timeout_s, question.timeout_s
    if asked is None:
        return _yes("timeout", "it has no time limit of its own")
    if asked <= most:
        return _yes("timeout", f"timeoutSec {asked} is at most {most}")
    message = f"timeoutSec {asked} is above {most}"
    return _no("timeout", message, f"ask for less, or raise max_timeout_s in {section.title}")


def _sandbox(section: _Section, question: Question) -> RuleAnswer:
    asked = ", ".join(section.rights.require_sandbox)
    if not question.is_unconfined:
        return _yes("sandbox", f"must be enforced when it starts: {asked or 'nothing'}")
    if question.host_confines:
        message = "the host's configuration names a sandbox, and this kind runs in none"
        return _no("sandbox", message, 'set mode = "auto" under [sandbox], or send no such job')
    if asked:
        message = f"this kind runs in no sandbox, and {asked} must be enforced"
        return _no("sandbox", message, f"take it out of require_sandbox in {section.title}")
    return _yes("sandbox", "it runs in no sandbox, and none is required")


def _concurrency(section: _Section, _question: Question) -> RuleAnswer:
    """Never a refusal: a job of a busy sender waits."""
    most = section.rights.concurrency
    words = "as many at a time as the host has room for"
    if most is not None:
        words = f"{most} at a time; a further one waits in its queue"
    return _yes("concurrency", words)


_RULES: Final[tuple[Callable[[_Section, Question], RuleAnswer], ...]] = (
    _kind,
    _lane,
    _lane_jobs,
    _agent,
    _repo_root,
    _branch,
    _validate_command,
    _timeout,
    _sandbox,
    _concurrency,
)


def _yes(rule: str, why: str) -> RuleAnswer:
    return RuleAnswer(rule=rule, allows=True, why=why)


def _no(rule: str, why: str, remedy: str) -> RuleAnswer:
    return RuleAnswer(rule=rule, allows=False, why=why, remedy=remedy)


def _is_inside(path: str, root: str) -> bool:
    """Compare whole components, by the grammar of the host's own paths."""
    flavour: type[PurePath] = PurePosixPath if root.startswith("/") else PureWindowsPath
    inner = flavour(path)
    return inner.is_absolute() and ".." not in inner.parts and inner.is_relative_to(flavour(root))
