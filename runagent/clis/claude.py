"""Anthropic's claude. Tested: the recordings (2.1.197) and the real CLI on loopback (2.1.332)."""

from __future__ import annotations

from typing import Final

from runagent.clis.facts import Capabilities, CliFacts

FACTS: Final = CliFacts(
    cli="claude",
    program="claude",
    capabilities=Capabilities(
        structured_stream=True,
        stdin_prompt=True,
        honours_cwd=True,
        resume=True,
        fork=True,
        injection=True,
        approvals_to_host=True,
        usage=True,
    ),
    tested=((2, 1, 197), (2, 1, 332)),
    flags={
        "-p": True,
        "--permission-mode": True,
        "--output-format": True,
        "--verbose": True,  # stream-json is refused without it
    },
    values=frozenset({"--permission-mode", "--output-format"}),
    default_flags=("--permission-mode", "acceptEdits"),
    extra_args={
        "--effort": True,
        "--fallback-model": True,
        "--max-budget-usd": True,
        "--append-system-prompt": True,
        "--allowedTools": True,
        "--disallowedTools": True,
        "--setting-sources": True,
        "--strict-mcp-config": False,
        "--restricted": False,
        "--safe-mode": False,
    },
)
