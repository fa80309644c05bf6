"""OpenAI's codex CLI: `codex exec … -`, the prompt on stdin, one JSON object a line.

It ignores the directory it is started in unless told, so `-C` names the worktree. Reading a prompt
of any size from stdin makes it the agent for long briefs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from contracts.events import Event, EventKind
from contracts.run_agent import AgentName
from runagent.agents import fields, phrases, usage_count
from runagent.agents.protocol import AgentPreset, Place

_TOOL_ITEMS: Final = frozenset(
    {"command_execution", "file_change", "mcp_tool_call", "web_search", "collab_tool_call"}
)
_SILENT_ITEMS: Final = frozenset({"todo_list"})


class Codex:
    """See Agent."""

    name = AgentName.CODEX
    executable = "codex"
    honours_cwd = False
    prompt_on_stdin = True
    environment: Mapping[str, str] = MappingProxyType({})

    def default_preset(self) -> AgentPreset:
        """See Agent.default_preset. Its own sandbox is off: the helper for it is missing from the
        Windows build, and a sandbox belongs around the agent, where the host can see it."""
        return AgentPreset(("codex",), ("--dangerously-bypass-approvals-and-sandbox",))

    def argv(self, _prompt: str, preset: AgentPreset, place: Place, /) -> tuple[str, ...]:
        """See Agent.argv. The last `-` means: read the prompt from stdin."""
        return (
            *preset.command,
            "exec",
            "-C",
            place.worktree,
            "--json",
            *preset.flags,
            "--skip-git-repo-check",
            "-",
        )

    def read_line(self, line: str) -> Sequence[Event] | None:
        """See Agent.read_line."""
        return fields.read_typed(line, _READERS)


def _read_thread(data: dict[str, Any]) -> list[Event]:
    thread_id = fields.text_at(data, "thread_id")
    return [Event(kind=EventKind.SESSION, data={"sessionId": thread_id})] if thread_id else []


def _read_turn_start(_data: dict[str, Any]) -> list[Event]:
    return [Event(kind=EventKind.STATUS, text="turn started")]


def _read_item_start(data: dict[str, Any]) -> list[Event]:
    item = fields.object_at(data, "item")
    kind = fields.text_at(item, "type")
    if kind not in _TOOL_ITEMS:
        return []
    asked = fields.text_at(item, "command") or fields.list_at(item, "changes") or item.get("tool")
    return [fields.tool_call(kind, fields.text_at(item, "id"), asked)]


def _read_item_end(data: dict[str, Any]) -> list[Event] | None:
    item = fields.object_at(data, "item")
    kind, text = fields.text_at(item, "type"), fields.text_at(item, "text")
    if kind == "agent_message":
        return [Event(kind=EventKind.TEXT, text=text)]
    if kind == "reasoning":
        return [Event(kind=EventKind.THINKING, text=text)]
    if kind == "error":
        # A warning about model metadata comes in this shape in runs that succeed: never fatal.
        message = fields.text_at(item, "message")
        return [Event(kind=EventKind.ERROR, text=message, data={"fatal": False})]
    if kind in _TOOL_ITEMS:
        failed = fields.text_at(item, "status") in ("failed", "declined")
        data = {"callId": fields.text_at(item, "id"), "isError": failed}
        events = [Event(kind=EventKind.TOOL_RESULT, text=kind, data=data)]
        if fields.text_at(item, "status") == "declined":
            events.append(_denied(kind))
        return events
    return [] if kind in _SILENT_ITEMS else None


def _denied(tool: str) -> Event:
    return Event(kind=EventKind.PERMISSION, text=tool, data={"denied": True})


def _read_turn_end(data: dict[str, Any]) -> list[Event]:
    usage = usage_count.usage_of(fields.object_at(data, "usage"), input_holds_cached=True)
    end = Event(kind=EventKind.RESULT, data={"isError": False, "code": "completed"})
    told = usage_count.as_data(usage, cumulative=True)  # over the turns of a thread
    return [Event(kind=EventKind.USAGE, data=told), end]


def _read_turn_failure(data: dict[str, Any]) -> list[Event]:
    message = fields.text_at(data, "error", "message")
    end = Event(kind=EventKind.RESULT, text=message, data={"isError": True, "code": "failed"})
    return [*_read_trouble(message), end]


def _read_error(data: dict[str, Any]) -> list[Event]:
    message = fields.text_at(data, "message")
    if message.startswith("Reconnecting"):
        status = Event(kind=EventKind.STATUS, text=message)
        if not phrases.names_a_limit(message):
            return [status]
        return [status, Event(kind=EventKind.QUOTA, text=message, data={"status": "retrying"})]
    return [
        *_read_trouble(message),
        Event(kind=EventKind.ERROR, text=message, data={"fatal": True}),
    ]


def _read_trouble(message: str) -> list[Event]:
    if phrases.names_a_limit(message):
        return [Event(kind=EventKind.QUOTA, text=message, data={"status": "rejected"})]
    if phrases.names_a_missing_login(message):
        return [Event(kind=EventKind.AUTH_EXPIRED, text=message)]
    return []


_READERS: Final[Mapping[str, fields.Reader]] = MappingProxyType(
    {
        "thread.started": _read_thread,
        "turn.started": _read_turn_start,
        "turn.completed": _read_turn_end,
        "turn.failed": _read_turn_failure,
        "item.started": _read_item_start,
        "item.completed": _read_item_end,
        "item.updated": fields.read_nothing,
        "error": _read_error,
    }
)
