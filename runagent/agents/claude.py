"""Anthropic's claude CLI: `claude -p PROMPT …`, the prompt as one argument, one JSON object a line.

It works in the directory it is started in. A run may print several `result` events. Its
`result.subtype` says `success` even for a rejected login or a rate limit: `is_error` and
`api_error_status` are what counts. Denied tools exit 0 and stand in `permission_denials` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from contracts.events import Event, EventKind
from contracts.reason import ReasonCode
from contracts.run_agent import AgentName
from runagent.agents import fields, phrases, usage_count
from runagent.agents.protocol import AgentPreset, Place

_HTTP_TOO_MANY: Final = 429
_CUT_OFF: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
_LIMIT_ERRORS: Final = frozenset({"rate_limit", "billing_error"})


class Claude:
    """See Agent."""

    name = AgentName.CLAUDE
    executable = "claude"
    honours_cwd = True
    prompt_on_stdin = False
    # The CLI's own 10 retries hid a limit for 176 s (measured); 5 still ride out a short hiccup.
    environment: Mapping[str, str] = MappingProxyType({"CLAUDE_CODE_MAX_RETRIES": "5"})

    def default_preset(self) -> AgentPreset:
        """See Agent.default_preset. Edits are allowed, riskier actions stay denied."""
        return AgentPreset(("claude",), ("--permission-mode", "acceptEdits"))

    def argv(self, prompt: str, preset: AgentPreset, _place: Place, /) -> tuple[str, ...]:
        """See Agent.argv. `-p` is a switch and the prompt a positional argument, so one that
        starts with a dash would be read as an option: it goes last, after `--`."""
        rest = (*preset.flags, "--output-format", "stream-json", "--verbose")
        if prompt.startswith("-"):
            return (*preset.command, "-p", *rest, "--", prompt)
        return (*preset.command, "-p", prompt, *rest)

    def read_line(self, line: str) -> Sequence[Event] | None:
        """See Agent.read_line."""
        return fields.read_typed(line, _READERS)


def _read_system(data: dict[str, Any]) -> list[Event]:
    subtype = fields.text_at(data, "subtype")
    if subtype == "init":
        session = {
            "sessionId": fields.text_at(data, "session_id"),
            "permissionMode": fields.text_at(data, "permissionMode"),
            "model": fields.text_at(data, "model"),
            "agentVersion": fields.text_at(data, "claude_code_version"),
        }
        return [Event(kind=EventKind.SESSION, data=session)]
    if subtype == "api_retry":
        return _read_retry(data)
    if subtype == "permission_denied":
        return [_denied(fields.text_at(data, "tool_name"))]
    return [Event(kind=EventKind.STATUS, text=subtype)]


def _read_retry(data: dict[str, Any]) -> list[Event]:
    error = fields.text_at(data, "error")
    facts = {name: data.get(name) for name in ("attempt", "max_retries", "error_status", "error")}
    events = [Event(kind=EventKind.STATUS, text=f"retrying after {error}", data=facts)]
    if error in _LIMIT_ERRORS or data.get("error_status") == _HTTP_TOO_MANY:
        delay_ms = fields.number_at(data, "retry_delay_ms")
        told: dict[str, Any] = {"status": "retrying"}
        if delay_ms is not None:
            told["retryAfterSec"] = delay_ms / 1000
        events.append(Event(kind=EventKind.QUOTA, text=error, data=told))
    if error == "authentication_failed":
        events.append(Event(kind=EventKind.AUTH_EXPIRED, text=error, data={"retrying": True}))
    return events


def _read_assistant(data: dict[str, Any]) -> list[Event]:
    blocks = fields.list_at(data, "message", "content")
    error = fields.text_at(data, "error")
    if error:
        # A message that the CLI wrote itself, in the agent's place.
        message = "\n".join(text for block in blocks if (text := fields.text_at(block, "text")))
        code = ReasonCode.OVERLOADED if error == "server_error" else None
        return [*_read_error_word(error, message), _fault(message or error, code)]
    inner = bool(fields.text_at(data, "parent_tool_use_id"))
    return [event for block in blocks if (event := _read_block(block, inner=inner))]


def _read_block(block: object, *, inner: bool) -> Event | None:
    kind = fields.text_at(block, "type")
    if kind == "text":
        text = fields.text_at(block, "text")
        return Event(kind=EventKind.TEXT, text=text, data={"subagent": True} if inner else {})
    if kind == "thinking":
        return Event(kind=EventKind.THINKING, text=fields.text_at(block, "thinking"))
    if kind == "tool_use":
        asked = fields.object_at(block, "input")
        return fields.tool_call(fields.text_at(block, "name"), fields.text_at(block, "id"), asked)
    return None


def _read_user(data: dict[str, Any]) -> list[Event]:
    events = []
    for block in fields.list_at(data, "message", "content"):
        if fields.text_at(block, "type") == "tool_result":
            facts = {
                "callId": fields.text_at(block, "tool_use_id"),
                "isError": fields.value_at(block, "is_error") is True,
            }
            events.append(Event(kind=EventKind.TOOL_RESULT, data=facts))
        elif text := fields.text_at(block, "text"):
            events.append(Event(kind=EventKind.USER, text=text))
    return events


def _read_rate_limit(data: dict[str, Any]) -> list[Event]:
    info = fields.object_at(data, "rate_limit_info")
    status = fields.text_at(info, "status")
    if status == "rejected" and info.get("isUsingOverage") is True:
        status = "allowed"  # the window is used up and the run goes on, paid otherwise
    facts = {
        "status": status,
        "resetsAt": info.get("resetsAt"),
        "window": fields.text_at(info, "rateLimitType"),
    }
    return [Event(kind=EventKind.QUOTA, data=facts)]


def _read_control(data: dict[str, Any]) -> list[Event]:
    if fields.text_at(data, "request", "subtype") != "can_use_tool":
        return []
    tool = fields.text_at(data, "request", "tool_name")
    return [
        Event(
            kind=EventKind.APPROVAL,
            text=tool,
            data={"requestId": fields.text_at(data, "request_id")},
        )
    ]


def _read_result(data: dict[str, Any]) -> list[Event]:
    denials = fields.list_at(data, "permission_denials")
    events = [_denied(fields.text_at(denial, "tool_name")) for denial in denials]
    events += _read_usage(data)
    text, status = fields.text_at(data, "result"), data.get("api_error_status")
    failed = data.get("is_error") is True or fields.text_at(data, "subtype").startswith("error")
    if not text:
        text = "\n".join(item for item in fields.list_at(data, "errors") if isinstance(item, str))
    if status == _HTTP_TOO_MANY or (failed and phrases.names_a_limit(text)):
        events.append(Event(kind=EventKind.QUOTA, text=text, data={"status": "rejected"}))
    facts = {
        "isError": failed,
        "code": status if status is not None else fields.text_at(data, "subtype"),
        "ended": fields.text_at(data, "terminal_reason"),
        "isCut": fields.text_at(data, "stop_reason") in _CUT_OFF,
    }
    events.append(Event(kind=EventKind.RESULT, text=text, data=facts))
    session_id = fields.text_at(data, "session_id")
    if session_id:
        events.append(Event(kind=EventKind.SESSION, data={"sessionId": session_id}))
    return events


def _read_usage(data: dict[str, Any]) -> list[Event]:
    """Read the tokens of one result: the table by model holds subagents and all earlier turns, the
    plain sum holds neither."""
    own, table = fields.object_at(data, "usage"), fields.object_at(data, "modelUsage")
    if not own and not table:
        return []
    usage = usage_count.usage_of(own)
    if table:
        hour = usage.cacheWrite1h
        usage = usage_count.usage_by_model(table)
        hour = min(hour, usage.cacheWrite5m)
        split = {"cacheWrite5m": usage.cacheWrite5m - hour, "cacheWrite1h": hour}
        cost = usage_count.cost_of(data.get("total_cost_usd"))
        usage = usage.model_copy(update={**split, "costUsd": cost})
    return [Event(kind=EventKind.USAGE, data=usage_count.as_data(usage, cumulative=bool(table)))]


def _read_stream_event(data: dict[str, Any]) -> list[Event]:
    text = fields.text_at(data, "event", "delta", "text")
    return [Event(kind=EventKind.DELTA, text=text)] if text else []


def _read_error_word(error: str, message: str) -> list[Event]:
    if error in _LIMIT_ERRORS:
        return [Event(kind=EventKind.QUOTA, text=message or error, data={"status": "rejected"})]
    if error == "authentication_failed":
        return [Event(kind=EventKind.AUTH_EXPIRED, text=message or error)]
    return []


def _fault(message: str, code: ReasonCode | None) -> Event:
    data = {"fatal": True} if code is None else {"fatal": True, "code": code.value}
    return Event(kind=EventKind.ERROR, text=message, data=data)


def _denied(tool: str) -> Event:
    return Event(kind=EventKind.PERMISSION, text=tool, data={"denied": True})


_READERS: Final[Mapping[str, fields.Reader]] = MappingProxyType(
    {
        "system": _read_system,
        "assistant": _read_assistant,
        "user": _read_user,
        "rate_limit_event": _read_rate_limit,
        "control_request": _read_control,
        "result": _read_result,
        "stream_event": _read_stream_event,
        # answers to the host's own control requests, and what only a terminal shows
        "control_response": fields.read_nothing,
        "control_cancel_request": fields.read_nothing,
        "keep_alive": fields.read_nothing,
        "tool_progress": fields.read_nothing,
    }
)
