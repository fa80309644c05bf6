"""OpenAI's Responses API: how a request is read, and how a text or a tool call is answered."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.model.conversation import Conversation, folder_in, texts_of
from tests.support.model.toolbox import Call

USAGE = {
    "input_tokens": 123,
    "input_tokens_details": {"cached_tokens": 20},
    "output_tokens": 45,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 168,
}


def read(body: dict[str, Any]) -> Conversation:
    """Return what a request says."""
    given = body.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    asked, told, answered = [], texts_of(body.get("instructions")), 0
    for item in items:
        kind = item.get("type", "message")
        answered += kind.endswith("_output")
        if kind == "message":
            texts = texts_of(item.get("content"))
            told += texts
            asked += texts if item.get("role") == "user" else []
    tools = {
        tool.get("name") or tool.get("type", ""): (tool.get("parameters") or {}).get(
            "properties", {}
        )
        for tool in body.get("tools") or []
    }
    model, streamed = str(body.get("model", "")), body.get("stream") is True
    return Conversation(tuple(asked), answered, tools, folder_in(told), model, streamed)


def whole(act: str | Call, asked: Conversation) -> dict[str, Any]:
    """Return the answer as one document."""
    return _response(asked, _item(act), "completed")


def stream(act: str | Call, asked: Conversation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of the answer; what stands before the first `done` is half of it."""
    item = _item(act)
    response = _response(asked, item, "completed")
    started = {**response, "status": "in_progress", "output": [], "usage": None}
    events = [("response.created", {"response": started}), *_item_events(act, item)]
    events.append(("response.completed", {"response": response}))
    for number, (name, fields) in enumerate(events):
        yield name, {"type": name, "sequence_number": number, **fields}


def _item_events(act: str | Call, item: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    at = {"item_id": item["id"], "output_index": 0}
    if isinstance(act, str):
        part = {"type": "output_text", "text": act, "annotations": []}
        begun = {**item, "status": "in_progress", "content": []}
        place = {**at, "content_index": 0}
        middle = [
            ("response.content_part.added", {**place, "part": {**part, "text": ""}}),
            ("response.output_text.delta", {**place, "delta": act, "logprobs": []}),
            ("response.output_text.done", {**place, "text": act, "logprobs": []}),
            ("response.content_part.done", {**place, "part": part}),
        ]
    elif act.text is not None:
        begun, middle = {**item, "status": "in_progress", "input": ""}, []
    else:
        begun, given = {**item, "status": "in_progress", "arguments": ""}, item["arguments"]
        name = "response.function_call_arguments"
        middle = [
            (f"{name}.delta", {**at, "delta": given}),
            (f"{name}.done", {**at, "arguments": given, "name": act.name}),
        ]
    return [
        ("response.output_item.added", {"output_index": 0, "item": begun}),
        *middle,
        ("response.output_item.done", {"output_index": 0, "item": item}),
    ]


def _item(act: str | Call) -> dict[str, Any]:
    number = uuid.uuid4().hex[:12]
    if isinstance(act, str):
        content = [{"type": "output_text", "text": act, "annotations": []}]
        return {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    named = {"call_id": f"call_{number}", "name": act.name, "status": "completed"}
    if act.text is not None:
        return {"type": "custom_tool_call", "id": f"ctc_{number}", "input": act.text, **named}
    arguments = json.dumps(act.arguments)
    return {"type": "function_call", "id": f"fc_{number}", "arguments": arguments, **named}


def _response(asked: Conversation, item: dict[str, Any], status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{uuid.uuid4().hex[:20]}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": status,
        "model": asked.model,
        "output": [item],
        "usage": USAGE,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
    }
