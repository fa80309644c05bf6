"""OpenAI's codex. Tested: the real CLI on loopback (0.171.0)."""

from __future__ import annotations

from typing import Final

from runagent.clis.facts import Capabilities, CliFacts

FACTS: Final = CliFacts(
    cli="codex",
    program="codex",
    capabilities=Capabilities(
        structured_stream=True,
        stdin_prompt=True,
        honours_cwd=False,
        resume=True,
        fork=True,
        injection=False,
        approvals_to_host=False,
        usage=True,
    ),
    tested=((0, 171, 0), (0, 171, 0)),
    flags={
        "-C": True,
        "--json": True,
        "--dangerously-bypass-approvals-and-sandbox": True,
        "--skip-git-repo-check": False,  # a worktree is a repository
    },
    values=frozenset({"-C"}),
    help_argv=("exec", "--help"),
    default_flags=("--dangerously-bypass-approvals-and-sandbox",),
    extra_args={
        "-c": True,
        "--config": True,
        "--profile": True,
        "--enable": True,
        "--disable": True,
        "--ephemeral": False,
        "--ignore-user-config": False,
        "--ignore-rules": False,
        "--strict-config": False,
    },
)
