"""Which agents are here, asked of the floor that may start programs."""

from __future__ import annotations

from dispatch.cli import AGENT_FINDER, AGENT_PRESETS, load_named


def find_agents() -> dict[str, str]:
    """Return agent -> version for each agent on PATH; "" for one that does not say."""
    found: dict[str, str] = load_named(AGENT_FINDER)()
    return found


def agent_presets() -> dict[str, dict[str, list[str]]]:
    """Return agent -> {"command", "flags"} as a run here would start it, defaults included."""
    presets: dict[str, dict[str, list[str]]] = load_named(AGENT_PRESETS)()
    return presets


def agent_words(found: dict[str, str]) -> str:
    """Return the agents as one line for people."""
    if not found:
        return "none of codex, claude, agy (gemini), grok is on PATH"
    return ", ".join(f"{name} {version}".rstrip() for name, version in sorted(found.items()))
