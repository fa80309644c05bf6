"""xAI's own grok. Tested: the real CLI on loopback (1.0.41)."""

from __future__ import annotations

from typing import Final

from runagent.clis.facts import Capabilities, CliFacts

FACTS: Final = CliFacts(
    cli="grok",
    program="grok",
    capabilities=Capabilities(
        structured_stream=True,
        stdin_prompt=False,
        honours_cwd=True,
        resume=True,
        fork=True,
        injection=False,
        approvals_to_host=False,
        usage=True,
    ),
    tested=((1, 0, 41), (1, 0, 41)),
    flags={
        "-p": True,
        "--disable-web-search": False,
        "--cwd": True,
        "--always-approve": True,
        "--output-format": True,
    },
    values=frozenset({"--cwd", "--output-format"}),
    default_flags=("--always-approve",),
    extra_args={
        "--reasoning-effort": True,
        "--max-turns": True,
        "--rules": True,
        "--allow": True,
        "--deny": True,
        "--disallowed-tools": True,
        "--no-plan": False,
        "--no-subagents": False,
        "--sandbox": True,
    },
)
