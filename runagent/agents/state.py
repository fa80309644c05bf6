"""Where each agent CLI keeps its login, its sessions and its settings, below the user's home.

Owns one table. Login and sessions must be writable for the CLI, and never copies: refresh tokens
rotate, and a renamed file must land in the real folder. What starts programs or changes what the
CLI may do (`guarded`) is the owner's and not the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from contracts.run_agent import AgentName

_SHARED_NAMES: Final = ("commands", "hooks", "skills", "agents", "plugins")


@dataclass(frozen=True, slots=True)
class AgentState:
    """The state of one CLI: `folder` below the home, or where `variable` of its environment leads;
    `guarded` names in it; `copied` files of the home that the CLI replaces by renaming."""

    folder: str
    variable: str
    guarded: tuple[str, ...]
    copied: tuple[str, ...] = ()


# Each CLI's own documentation of its folder; a name that a version does not know does no harm.
AGENT_STATE: Final[Mapping[AgentName, AgentState]] = MappingProxyType(
    {
        AgentName.CLAUDE: AgentState(
            folder=".claude",
            variable="CLAUDE_CONFIG_DIR",
            guarded=(
                *("settings.json", "settings.local.json", "CLAUDE.md", "output-styles", "rules"),
                # `local` holds the CLI itself where its migrate-installer put it
                *("keybindings.json", "workflows", "local", *_SHARED_NAMES),
            ),
            copied=(".claude.json",),
        ),
        AgentName.CODEX: AgentState(
            folder=".codex",
            variable="CODEX_HOME",
            guarded=(
                *("config.toml", "managed_config.toml", "requirements.toml", "hooks.json"),
                *("AGENTS.md", "AGENTS.override.md", "prompts", "rules", *_SHARED_NAMES),
            ),
        ),
        AgentName.GEMINI: AgentState(
            folder=".gemini",
            variable="",
            guarded=(
                *("settings.json", "trustedFolders.json", "mcp_config.json", ".env", "GEMINI.md"),
                *("system.md", "extensions", "policies", *_SHARED_NAMES),
            ),
        ),
        AgentName.GROK: AgentState(
            folder=".grok",
            variable="GROK_HOME",
            guarded=(
                *("config.toml", "settings.json", "user-settings.json", "mcp.json", "hooks.json"),
                *("GROK.md", "AGENTS.md", "bin", "downloads", *_SHARED_NAMES),
            ),
        ),
    }
)


def empty_form(name: str) -> bytes | None:
    """Return what a guarded file that is not there says when it is empty; None: it is a folder.

    It means the same to the CLI as no file, and it gives the box something to guard.
    """
    if name.endswith(".json"):
        return b"{}\n"
    return b"" if "." in name else None
