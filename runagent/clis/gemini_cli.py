"""Google's gemini-cli, which a host may choose in agy's place. Tested: the real CLI (0.61.0)."""

from __future__ import annotations

from typing import Final

from runagent.clis.facts import Capabilities, CliFacts

FACTS: Final = CliFacts(
    cli="gemini-cli",
    program="gemini",
    capabilities=Capabilities(
        structured_stream=True,
        stdin_prompt=True,
        honours_cwd=True,
        resume=True,
        fork=False,
        injection=False,
        approvals_to_host=False,
        usage=True,
    ),
    tested=((0, 61, 0), (0, 61, 0)),
    flags={
        "-p": True,
        "--output-format": True,
        "--approval-mode": True,
        "--skip-trust": False,
    },
    values=frozenset({"--output-format", "--approval-mode"}),
    default_flags=("--approval-mode", "yolo", "--skip-trust"),
    extra_args={
        "--sandbox": False,
        "--policy": True,
        "--extensions": True,
        "--include-directories": True,
        "--allowed-mcp-server-names": True,
    },
)
