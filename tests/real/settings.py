"""What a host's owner would write so that each CLI talks to the scripted model, quietly: files of a
throw-away home, variables, and the flags of the presets. The keys are fakes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

AGENTS: Final = ("claude", "codex", "gemini", "grok")
SENDER, LANE = "real-sender", "REAL"
FAKE_KEY: Final = "fake-key-of-nobody-0000"

# What of the environment below is not in the product's own list, and so is named in
# [environment] allow. A model server on loopback is no place for a proxy.
ALLOW: Final = (
    *("LOOP_KEY", "GEMINI_TELEMETRY_ENABLED", "GEMINI_CLI_TRUST_WORKSPACE"),
    *("GROK_DISABLE_AUTOUPDATER", "GROK_FEEDBACK_ENABLED", "GROK_TELEMETRY_ENABLED"),
    *("GROK_TELEMETRY_TRACE_UPLOAD",),
)

# preset -> agent -> flags. `standard`: what the product grants by itself (gemini-cli's own, as agy
# is on no registry). `free`: shell, too. `strict`: what makes the script's wish a denied one.
PRESETS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "standard": {
        "claude": ("--permission-mode", "acceptEdits"),
        "codex": ("--dangerously-bypass-approvals-and-sandbox",),
        "gemini": ("--approval-mode", "yolo", "--skip-trust"),
        "grok": ("--always-approve",),
    },
    "free": {
        "claude": ("--dangerously-skip-permissions",),
        "codex": ("--dangerously-bypass-approvals-and-sandbox",),
        "gemini": ("--approval-mode", "yolo", "--skip-trust"),
        "grok": ("--always-approve",),
    },
    "strict": {
        "claude": ("--permission-mode", "default"),
        "codex": ("--sandbox", "read-only", "-c", 'approval_policy="never"'),
        "gemini": ("--approval-mode", "auto_edit", "--skip-trust"),
        "grok": ("--permission-mode", "default"),
    },
}

_CODEX = """\
model = "gpt-5.1-codex"
model_provider = "loop"
check_for_update_on_startup = false
[analytics]
enabled = false
[feedback]
enabled = false
[otel]
exporter = "none"
[model_providers.loop]
name = "loop"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "LOOP_KEY"
request_max_retries = 2
stream_max_retries = 2
"""
_GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "telemetry": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "model": {"name": "gemini-2.5-flash"},
}
_GROK = """\
[cli]
auto_update = false
[features]
telemetry = false
feedback = false
[models]
default = "loop"
[model.loop]
model = "scripted"
base_url = "{url}/v1"
env_key = "LOOP_KEY"
api_backend = "chat_completions"
context_window = 200000
max_retries = 2
"""


def write_files(home: Path, url: str) -> None:
    """Write the CLIs' own settings below `home`; the model is at `url`/AGENT."""
    for name, text in (
        (".codex/config.toml", _CODEX.format(url=f"{url}/codex")),
        (".gemini/settings.json", json.dumps(_GEMINI)),
        (".grok/config.toml", _GROK.format(url=f"{url}/grok")),
    ):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def variables(home: Path, url: str, login: str) -> dict[str, str]:
    """Return the variables of a host whose `login` is "key", "subscription" or "none"."""
    given = {
        "ANTHROPIC_BASE_URL": f"{url}/claude",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "IS_SANDBOX": "1",  # claude's bypass mode wants to hear this from root
        "GOOGLE_GEMINI_BASE_URL": f"{url}/gemini",
        "GEMINI_TELEMETRY_ENABLED": "false",
        "GROK_HOME": str(home / ".grok"),
        "GROK_DISABLE_AUTOUPDATER": "1",
        "GROK_FEEDBACK_ENABLED": "false",
        "GROK_TELEMETRY_ENABLED": "false",
        "GROK_TELEMETRY_TRACE_UPLOAD": "false",
    }
    if login == "none":
        return given
    given |= {"LOOP_KEY": FAKE_KEY, "GEMINI_API_KEY": FAKE_KEY}
    claude = "ANTHROPIC_API_KEY" if login == "key" else "CLAUDE_CODE_OAUTH_TOKEN"
    return given | {claude: FAKE_KEY}


def machine_config(host: str, preset: str, sandbox: str, concurrency: int, watched: Path) -> str:
    """Return the config.toml of a machine that is sender and host."""
    agents = "".join(
        f"[agents.{agent}]\ncommand = {json.dumps([agent])}\nflags = {json.dumps(list(flags))}\n"
        for agent, flags in PRESETS[preset].items()
    )
    return (
        f"[sender]\nname = {json.dumps(SENDER)}\n"
        f"[host]\nname = {json.dumps(host)}\nconcurrency = {concurrency}\n"
        "drain_timeout_s = 5\n"
        f"[environment]\nallow = {json.dumps(list(ALLOW))}\n"
        f"[sandbox]\nmode = {json.dumps(sandbox)}\n"
        f"[watch]\npaths = [{json.dumps(str(watched))}]\n{agents}"
    )
