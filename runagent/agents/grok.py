"""xAI's grok CLI: `grok -p PROMPT …`, the prompt as one argument, one JSON object a line.

It works in the directory it is started in; `--cwd` says the same once more. It dies of an argument
vector beyond some 32 kB. A denied tool ends the turn with `stopReason` `cancelled` and exit 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from contracts.events import Event, EventKind
from contracts.run_agent import AgentName
from runagent.agents import fields, phrases, usage_count
from runagent.agents.protocol import AgentPreset, Place

# Recorded: end_turn, and cancelled, which is told as a denial. What else ends a turn (max_tokens,
# max_turn_requests, refusal in the protocol that grok speaks) ends it before the work is done.
_GOOD_ENDS: Final = frozenset({"", "end_turn", "cancelled"})


class Grok:
    """See Agent."""

    name = AgentName.GROK
    executable = "grok"
    honours_cwd = True
    prompt_on_stdin = False
    environment: Mapping[str, str] = MappingProxyType({})

    def default_preset(self) -> AgentPreset:
        """See Agent.default_preset. Without it a headless grok cancels at its first edit."""
        return AgentPreset(("grok",), ("--always-approve",))

    def argv(self, prompt: str, preset: AgentPreset, place: Place, /) -> tuple[str, ...]:
        """See Agent.argv. A prompt that starts with a dash is bound to its option with `=`."""
        asked = (f"-p={prompt}",) if prompt.startswith("-") else ("-p", prompt)
        return (
            *preset.command,
            *asked,
            "--disable-web-search",
            "--cwd",
            place.worktree,
            *preset.flags,
            "--output-format",
            "streaming-json",
        )

    def read_line(self, line: str) -> Sequence[Event] | None:
        """See Agent.read_line."""
        return fields.read_typed(line, _READERS)


def _read_text(data: dict[str, Any]) -> list[Event]:
    return [Event(kind=EventKind.TEXT, text=fields.text_at(data, "data"), data={"partial": True})]


def _read_thought(data: dict[str, Any]) -> list[Event]:
    return [Event(kind=EventKind.THINKING, text=fields.text_at(data, "data"))]


def _read_tool_call(data: dict[str, Any]) -> list[Event]:
    name = fields.text_at(data, "toolName") or fields.text_at(data, "title")
    asked = fields.object_at(data, "rawInput")
    return [fields.tool_call(name, fields.text_at(data, "toolCallId"), asked)]


def _read_tool_update(data: dict[str, Any]) -> list[Event]:
    status = fields.text_at(data, "status")
    if status not in ("completed", "failed"):
        return []
    facts = {"callId": fields.text_at(data, "toolCallId"), "isError": status == "failed"}
    return [Event(kind=EventKind.TOOL_RESULT, data=facts)]


def _read_usage(data: dict[str, Any]) -> list[Event]:
    """Read the tokens of one step; the end tells the sum of all."""
    usage = usage_count.usage_of(fields.object_at(data, "usage"))
    return [Event(kind=EventKind.USAGE, data=usage_count.as_data(usage, cumulative=False))]


def _read_sum(data: dict[str, Any]) -> list[Event]:
    own, table = fields.object_at(data, "usage"), fields.object_at(data, "modelUsage")
    if not own and not table:
        return []
    usage = usage_count.usage_of(own)
    if table:
        known = {"reasoning": usage.reasoning, "cacheWrite1h": usage.cacheWrite1h}
        usage = usage_count.usage_by_model(table).model_copy(update=known)
    return [Event(kind=EventKind.USAGE, data=usage_count.as_data(usage, cumulative=True))]


def _read_end(data: dict[str, Any]) -> list[Event]:
    reason, session_id = fields.text_at(data, "stopReason"), fields.text_at(data, "sessionId")
    events = [Event(kind=EventKind.SESSION, data={"sessionId": session_id})] if session_id else []
    events += _read_sum(data)
    if reason == "cancelled":
        # Headless, nobody can press cancel: this is the CLI denying a tool. The words of the
        # failed tool call say so too, but a tool can print those.
        events.append(Event(kind=EventKind.PERMISSION, data={"denied": True}))
    failed = reason not in _GOOD_ENDS
    events.append(Event(kind=EventKind.RESULT, data={"isError": failed, "code": reason}))
    return events


def _read_error(data: dict[str, Any]) -> list[Event]:
    message = fields.text_at(data, "message")
    fault = Event(kind=EventKind.ERROR, text=message, data={"fatal": True})
    if phrases.names_a_limit(message):
        return [Event(kind=EventKind.QUOTA, text=message, data={"status": "rejected"}), fault]
    if phrases.names_a_missing_login(message):
        return [Event(kind=EventKind.AUTH_EXPIRED, text=message), fault]
    return [fault]


_READERS: Final[Mapping[str, fields.Reader]] = MappingProxyType(
    {
        "text": _read_text,
        "thought": _read_thought,
        "tool_call": _read_tool_call,
        "tool_call_update": _read_tool_update,
        "usage": _read_usage,
        "end": _read_end,
        "error": _read_error,
        "available_commands": fields.read_nothing,
    }
)
