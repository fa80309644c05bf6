"""config.toml and policy.toml as they are first written: commented, and private."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from contracts.errors import InvalidRequest, Problem

_CONFIG: Final = """\
# fleet-dispatch: settings of this machine. Flag over environment over this file over default;
# `fleet-dispatch config show` prints each value with its source. Unknown keys are errors.

[fleet]
# Where the broker is. FLEET_DISPATCH_REDIS_URL goes over it. With a password: redis://:SECRET@host
# redis_url = "redis://127.0.0.1:6379/0"

[sender]
# Who signs jobs sent from this machine.
{sender_line}

[host]
# What the listener on this machine calls itself, which lanes it serves, how many jobs at a time.
name = {host}
lanes = {lanes}
concurrency = 1

# A sender's path -> the path here; the longest prefix of whole components wins.
# [repo_paths]
# "C:\\\\src" = "/home/me/src"

# How an agent is started here; left out: the agent's own defaults.
# [agents.codex]
# command = ["codex"]
# flags = ["--dangerously-bypass-approvals-and-sandbox"]

# [environment]
# allow = ["MY_TOOL_HOME"]        # further variables that agents inherit

# [validation]
# timeout_s = 1200
# detectors = []

# What confines agents and validators: see fleet-dispatch sandbox check.
# [sandbox]
# mode = "auto"                   # or "bwrap", "landlock", "none"

# [worktree]
# timeout_s = 600
"""

_POLICY: Final = """\
# What verified senders may have run on this host. What is not written here is refused.
# One section per sender; [senders."*"] is for every other one that holds a grant.

[senders.{sender}]
kinds = ["run_agent"]
# Repositories under these folders only, links resolved. Empty: none at all.
repo_roots = {roots}
# Commands that a request may bring for validation: "none", "named" ([validators] below) or "any".
# "any" lets the sender run any shell command here as this user.
validate = "{validate}"
# lanes = ["MAIN"]                 # left out: every lane served here
# agents = ["codex", "claude"]     # left out: all
# max_timeout_s = 14400
# require_sandbox = ["keys"]       # what must be enforced around its jobs
# lane_jobs = true                 # jobs for the lane, not only for this host by name

# [validators]
# tests = ["make", "test"]
"""


def write_host_config(path: Path, *, host: str, lanes: Sequence[str], sender: str | None) -> bool:
    """Write config.toml unless there is one; say whether it was written."""
    line = '# name = "alice"' if sender is None else f"name = {_quoted(sender)}"
    listed = "[" + ", ".join(_quoted(lane) for lane in lanes) + "]"
    return _write(path, _CONFIG.format(sender_line=line, host=_quoted(host), lanes=listed))


def write_host_policy(
    path: Path, *, sender: str, roots: Sequence[str], validate: Literal["none", "any"]
) -> bool:
    """Write policy.toml with a section for `sender` unless there is one; say whether it was."""
    listed = "[" + ", ".join(_quoted(root) for root in roots) + "]"
    section = sender if "." not in sender else _quoted(sender)
    return _write(path, _POLICY.format(sender=section, roots=listed, validate=validate))


def _write(path: Path, text: str) -> bool:
    from dispatch.private_files import make_private_folder, write_private_file

    make_private_folder(path.parent)
    try:
        write_private_file(path, text.encode(), replace=False)
    except FileExistsError:
        return False
    return True


def _quoted(text: str) -> str:
    """Return a TOML string. Raises InvalidRequest for text that TOML cannot hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = "is not UTF-8, which TOML needs"
        raise InvalidRequest([Problem("path", message, "choose another folder")]) from error
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
