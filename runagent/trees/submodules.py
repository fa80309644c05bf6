"""Filling the submodules of a fresh worktree, when the host wants that.

Git does it, with an environment of ours: no hook, no template, no filter, no credential program and
no configuration but the repository's own, over the host's protocols alone, under one deadline. The
shared configuration is not written to. It must run before an agent does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from runagent.deadline import Deadline
from runagent.environment import git_environment, network_variables
from runagent.git.trusted_git import first_line
from runagent.process import EndState, ProcessOutcome, ProcessRunner, ProcessSpec, run
from runagent.trees.worktree_options import WorktreeOptions

_DEPTH_MAX: Final = 5
_GRACE_S: Final = 5.0  # a clone that is told to end removes what it has begun
_SETTINGS: Final = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "submodule.active=.",  # every one, without writing `submodule.NAME.active` for the owner
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "credential.helper=",
    "gc.auto=0",
)


def fill_submodules(
    tree: str,
    paths: list[str],
    options: WorktreeOptions,
    *,
    environment: Mapping[str, str],
    runner: ProcessRunner,
    deadline: Deadline,
) -> str:
    """Fill the submodules at `paths` of the worktree `tree`, and those inside them if the host says
    so. `environment` is searched for proxies alone.

    Returns why some are not filled, "" when all are. Never raises for what a remote does.
    """
    if options.submodules == "off" or not paths:
        return ""
    limit = Deadline(min(options.submodules_timeout_s, deadline.left_s()))
    env = _environment(options.submodule_protocols, environment)
    pending = [(tree, path, 0) for path in paths]
    troubles: list[str] = []
    while pending:
        parent, path, depth = pending.pop(0)
        trouble = _fill_one(parent, path, env, runner, limit)
        if trouble:
            troubles.append(trouble)
        elif options.submodules == "recursive" and depth < _DEPTH_MAX:
            inner = os.path.join(parent, path)
            pending += [(inner, name, depth + 1) for name in _inner(inner, env, runner, limit)]
    return "; ".join(dict.fromkeys(troubles))


def is_filled(folder: bytes) -> bool:
    """Say whether a submodule's folder holds more than git's pointer."""
    try:
        return any(name != b".git" for name in os.listdir(folder))
    except OSError:
        return False


def _fill_one(
    parent: str, path: str, env: Mapping[str, str], runner: ProcessRunner, limit: Deadline
) -> str:
    if limit.is_over():
        return f"the {limit.seconds:.0f} s of submodules_timeout_s are over"
    words = ("submodule", "--quiet", "update", "--checkout", "--", path)
    outcome = _git(parent, words, env, runner, limit)
    if outcome.state is EndState.TIMED_OUT:
        return f"the {limit.seconds:.0f} s of submodules_timeout_s are over"
    if outcome.state is not EndState.EXITED:
        return f"git did not run: {outcome.why}"
    if outcome.exit_code != 0:
        return first_line(outcome.stderr.decode("utf-8", "replace"))
    return ""


def _inner(tree: str, env: Mapping[str, str], runner: ProcessRunner, limit: Deadline) -> list[str]:
    """Return the submodules of a submodule."""
    outcome = _git(tree, ("ls-files", "-s", "-z"), env, runner, limit)
    records = [record.partition(b"\t") for record in outcome.stdout.split(b"\0")]
    return [os.fsdecode(path) for head, _, path in records if head.startswith(b"160000")]


def _git(
    tree: str,
    words: tuple[str, ...],
    env: Mapping[str, str],
    runner: ProcessRunner,
    limit: Deadline,
) -> ProcessOutcome:
    settings = [word for setting in _SETTINGS for word in ("-c", setting)]
    return run(
        runner,
        ProcessSpec(
            argv=("git", "-C", tree, *settings, *words),
            cwd=tree,
            env=env,
            timeout_s=max(1.0, limit.left_s()),
            grace_s=_GRACE_S,
        ),
    )


def _environment(protocols: tuple[str, ...], source: Mapping[str, str]) -> dict[str, str]:
    """Return git's environment: as for our looks, with a way out over `protocols`. GIT_SSH_COMMAND
    outdoes a `core.sshCommand` that somebody left in the repository."""
    ssh = "ssh -o BatchMode=yes" if "ssh" in protocols else "false"
    return {
        **git_environment(),
        **network_variables(source),
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),
        "GIT_SSH_COMMAND": ssh,
        "GIT_TEMPLATE_DIR": "",
    }
