"""Google's Gemini: `agy` (Antigravity) by default, gemini-cli where the host names `gemini`.

agy ignores the directory it is started in: it edits whatever workspace it had open last, or a
scratch folder. `--add-dir` names the worktree and is never left out. It also ends its own print
mode after five minutes unless told. `-m` is another option there: the model is `--model`.
Both print one JSON object a line, in two shapes that do not collide, so one reader serves both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PureWindowsPath
from types import MappingProxyType
from typing import Any, Final

from contracts.events import Event, EventKind
from contracts.run_agent import AgentName
from runagent.agents import fields, phrases, usage_count
from runagent.agents.protocol import AgentPreset, Place

_AGY_MODEL: Final = "Gemini 3.1 Pro (High)"
_GEMINI_CLI_FLAGS: Final = ("--approval-mode", "yolo", "--skip-trust")
_GOOD_ENDS: Final = frozenset({"", "success", "completed", "ok", "done"})


class Gemini:
    """See Agent."""

    name = AgentName.GEMINI
    executable = "agy"
    honours_cwd = False
    prompt_on_stdin = False
    # gemini-cli starts itself a second time unless told; the first one then hides the exit.
    environment: Mapping[str, str] = MappingProxyType({"GEMINI_CLI_NO_RELAUNCH": "true"})

    def default_preset(self) -> AgentPreset:
        """See Agent.default_preset. agy's print mode needs no permission flag."""
        return AgentPreset(("agy",), ())

    def argv(self, prompt: str, preset: AgentPreset, place: Place, /) -> tuple[str, ...]:
        """See Agent.argv. A prompt that starts with a dash is bound to its option with `=`, or an
        option parser reads it as options. agy's own time limit is the job's: it starts counting
        after the host does, so the host's deadline speaks first."""
        asked = (f"-p={prompt}",) if prompt.startswith("-") else ("-p", prompt)
        if _is_gemini_cli(preset):
            flags = preset.flags or _GEMINI_CLI_FLAGS
            return (*preset.command, *asked, "--output-format", "stream-json", *flags)
        return (
            *preset.command,
            "--model",
            preset.model or _AGY_MODEL,
            "--add-dir",
            place.worktree,
            *preset.flags,
            "--output-format",
            "stream-json",
            "--print-timeout",
            f"{place.timeout_s}s",
            *asked,
        )

    def read_line(self, line: str) -> Sequence[Event] | None:
        """See Agent.read_line."""
        return fields.read_typed(line, _READERS)


def _is_gemini_cli(preset: AgentPreset) -> bool:
    if preset.variant:
        return preset.variant == "gemini-cli"
    return any(PureWindowsPath(part).stem == "gemini" for part in preset.command)


def _read_init(data: dict[str, Any]) -> list[Event]:
    session_id = fields.text_at(data, "session_id") or fields.text_at(data, "conversation_id")
    facts = {
        "sessionId": session_id,
        "permissionMode": fields.text_at(data, "permission_mode"),
        "model": fields.text_at(data, "model"),
    }
    return [Event(kind=EventKind.SESSION, data=facts)]


def _read_message(data: dict[str, Any]) -> list[Event]:
    text = fields.text_at(data, "content")
    if fields.text_at(data, "role") == "user":
        return [Event(kind=EventKind.USER, text=text)]
    partial = data.get("delta") is True
    return [Event(kind=EventKind.TEXT, text=text, data={"partial": True} if partial else {})]


def _read_tool_use(data: dict[str, Any]) -> list[Event]:
    asked = fields.object_at(data, "parameters")
    name = fields.text_at(data, "tool_name")
    return [fields.tool_call(name, fields.text_at(data, "tool_id"), asked)]


def _read_tool_result(data: dict[str, Any]) -> list[Event]:
    failed = fields.text_at(data, "status") == "error"
    facts = {"callId": fields.text_at(data, "tool_id"), "isError": failed}
    events = [Event(kind=EventKind.TOOL_RESULT, data=facts)]
    # The type is the CLI's word; the message beside it can be the tool's.
    kind = fields.text_at(data, "error", "type")
    if kind in ("tool_not_registered", "policy_violation", "permission_denied"):
        # Tools of a stricter mode are not offered at all: asking for one is how a denial shows.
        events.append(_denied(fields.text_at(data, "tool_id").partition("__")[0]))
    return events


def _read_step(data: dict[str, Any]) -> list[Event]:
    """Read agy's `step_update`: one step of the conversation, repeated as its state changes."""
    step, state = fields.text_at(data, "step_type"), fields.text_at(data, "state")
    text = fields.text_at(data, "text") or fields.text_at(data, "content")
    if step == "user_input":
        return [Event(kind=EventKind.USER, text=text)]
    if step == "agent_response":
        return [Event(kind=EventKind.TEXT, text=text)] if text else []
    if step == "tool":
        return _read_tool_step(data, state)
    return [Event(kind=EventKind.STATUS, text=step)]


def _read_tool_step(data: dict[str, Any], state: str) -> list[Event]:
    info = fields.object_at(data, "tool_info")
    name, call_id = fields.text_at(info, "name"), fields.text_at(info, "id")
    if state == "ACTIVE":
        return [fields.tool_call(name, call_id, info)]
    facts = {"callId": call_id, "isError": state == "ERROR"}
    events = [Event(kind=EventKind.TOOL_RESULT, text=name, data=facts)]
    message = fields.text_at(data, "error") or fields.text_at(data, "error", "message")
    if state == "ERROR" and phrases.names_a_denial(message):
        events.append(_denied(name))
    return events


def _read_result(data: dict[str, Any]) -> list[Event]:
    fault = fields.text_at(data, "error") or fields.text_at(data, "error", "message")
    status = fields.text_at(data, "status").lower()
    failed = status not in _GOOD_ENDS
    events = _read_usage(data)
    if failed:
        events += _read_trouble(fault)
    text = fault if failed and fault else fields.text_at(data, "response")
    events.append(Event(kind=EventKind.RESULT, text=text, data={"isError": failed, "code": status}))
    return events


def _read_usage(data: dict[str, Any]) -> list[Event]:
    stats = fields.object_at(data, "stats") or fields.object_at(data, "usage")
    if not stats:
        return []
    table = fields.object_at(stats, "models")
    if table:
        usage = usage_count.usage_by_model(table, input_holds_cached=True)
    else:
        usage = usage_count.usage_of(stats, input_holds_cached=True)
    return [Event(kind=EventKind.USAGE, data=usage_count.as_data(usage, cumulative=True))]


def _read_error(data: dict[str, Any]) -> list[Event]:
    message = fields.text_at(data, "message")
    fatal = fields.text_at(data, "severity") != "warning"
    fault = Event(kind=EventKind.ERROR, text=message, data={"fatal": fatal})
    return [*_read_trouble(message), fault] if fatal else [fault]


def _read_trouble(message: str) -> list[Event]:
    if phrases.names_a_limit(message):
        return [Event(kind=EventKind.QUOTA, text=message, data={"status": "rejected"})]
    if phrases.names_a_missing_login(message):
        return [Event(kind=EventKind.AUTH_EXPIRED, text=message)]
    if phrases.names_a_denial(message):
        return [_denied("")]
    return []


def _denied(tool: str) -> Event:
    return Event(kind=EventKind.PERMISSION, text=tool, data={"denied": True})


_READERS: Final[Mapping[str, fields.Reader]] = MappingProxyType(
    {
        "init": _read_init,
        "message": _read_message,
        "tool_use": _read_tool_use,
        "tool_result": _read_tool_result,
        "step_update": _read_step,
        "result": _read_result,
        "error": _read_error,
    }
)
