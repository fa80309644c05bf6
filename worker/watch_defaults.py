"""Where people's machines decide what runs later: the files that every host watches by default.

Owns the list. What tools write in passing in a run (sessions, caches, histories, host keys that ssh
meets) is not on it, or nobody would read the warning.
"""

from __future__ import annotations

import os
from typing import Final

from dispatch.settings import Settings
from runagent.around.watched import WatchList

# Read by a shell at its start (bash(1), zsh(1), fish(1)), or by a session (pam_env(8), startx(1)).
_SHELLS: Final = (
    "~/.profile", "~/.bashrc", "~/.bash_profile", "~/.bash_login", "~/.bash_logout",
    "~/.bash_aliases", "~/.inputrc", "~/.zshrc", "~/.zshenv", "~/.zprofile", "~/.zlogin",
    "~/.zlogout", "~/.config/fish/config.fish", "~/.config/fish/conf.d", "~/.pam_environment",
    "~/.config/environment.d", "~/.xinitrc", "~/.xprofile", "~/.xsessionrc",
)  # fmt: skip
_KEYS_AND_GIT: Final = ("~/.ssh", "~/.gitconfig", "~/.config/git", "~/.netrc", "~/.git-credentials")
_AUTOSTART: Final = (
    "~/.config/autostart", "~/.config/systemd/user", "~/.local/share/systemd/user",
    "~/Library/LaunchAgents",
)  # fmt: skip
# What package managers obey: where from they install, and what they run.
_TOOLS: Final = (
    "~/.npmrc", "~/.yarnrc", "~/.pypirc", "~/.pip/pip.conf", "~/.config/pip/pip.conf",
    "~/.cargo/config.toml", "~/.cargo/config", "~/.nuget/NuGet/NuGet.Config",
)  # fmt: skip
# Each CLI's documented settings, instructions, commands and hooks; its state beside them is not.
_AGENTS: Final = (
    "~/.claude/settings.json", "~/.claude/settings.local.json", "~/.claude/CLAUDE.md",
    "~/.claude/commands", "~/.claude/agents", "~/.claude/hooks", "~/.claude/skills",
    "~/.codex/config.toml", "~/.codex/AGENTS.md", "~/.codex/prompts", "~/.codex/rules",
    "~/.gemini/settings.json", "~/.gemini/GEMINI.md", "~/.gemini/commands",
    "~/.grok/settings.json", "~/.grok/user-settings.json", "~/.grok/GROK.md",
)  # fmt: skip
DEFAULTS: Final = (*_SHELLS, *_KEYS_AND_GIT, *_AUTOSTART, *_TOOLS, *_AGENTS)


def watch_list_of(settings: Settings) -> WatchList:
    """Return what is watched on this host: the defaults, our own files, and what is configured."""
    places = settings.places
    own = (places.keys_dir, places.policy_file, places.config_file)
    defaults = map(os.path.expanduser, DEFAULTS) if settings.watch.defaults else ()
    paths = (*defaults, *map(str, own), *settings.watch.paths)
    return WatchList(tuple(dict.fromkeys(paths)), settings.watch.checkout == "note")
