"""Google's agy (Antigravity). On no registry that we could install from: proved with a program that
ignores its working directory as agy was seen to, never with agy itself."""

from __future__ import annotations

from typing import Final

from runagent.clis.facts import Capabilities, CliFacts

FACTS: Final = CliFacts(
    cli="agy",
    program="agy",
    capabilities=Capabilities(
        structured_stream=True,
        stdin_prompt=False,
        honours_cwd=False,
        resume=False,
        fork=False,
        injection=False,
        approvals_to_host=False,
        usage=True,
    ),
    tested=None,
    flags={
        "--model": False,
        "--add-dir": True,
        "--output-format": True,
        "--print-timeout": False,
        "-p": True,
    },
    values=frozenset({"--model", "--add-dir", "--output-format", "--print-timeout"}),
    extra_args={"--sandbox": False},
)
