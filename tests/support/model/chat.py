"""Chat completions, as OpenAI and xAI speak them: how a request is read and answered."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.model.conversation import Conversation, folder_in, texts_of
from tests.support.model.toolbox import Call

USAGE = {
    "prompt_tokens": 123,
    "completion_tokens": 45,
    "total_tokens": 168,
    "prompt_tokens_details": {"cached_tokens": 20},
}


def read(body: dict[str, Any]) -> Conversation:
    """Return what a request says."""
    asked, told, answered = [], [], 0
    for message in body.get("messages", []):
        texts = texts_of(message.get("content"))
        told += texts
        answered += message.get("role") == "tool"
        asked += texts if message.get("role") == "user" else []
    tools = {
        tool["function"]["name"]: (tool["function"].get("parameters") or {}).get("properties", {})
        for tool in body.get("tools") or []
        if "function" in tool
    }
    model, streamed = str(body.get("model", "")), body.get("stream") is True
    return Conversation(tuple(asked), answered, tools, folder_in(told), model, streamed)


def whole(act: str | Call, asked: Conversation) -> dict[str, Any]:
    """Return the answer as one document."""
    choice = {"index": 0, "message": _message(act), "finish_reason": _reason(act)}
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": USAGE}


def stream(act: str | Call, asked: Conversation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the chunks of the answer; the first one is half of it."""
    head = _head(asked, "chat.completion.chunk")
    said = {"index": 0, "delta": _message(act), "finish_reason": None}
    yield "", {**head, "choices": [said]}
    ended = {"index": 0, "delta": {}, "finish_reason": _reason(act)}
    yield "", {**head, "choices": [ended], "usage": USAGE}


def _head(asked: Conversation, kind: str) -> dict[str, Any]:
    number = f"chatcmpl-{uuid.uuid4().hex[:12]}"
    return {"id": number, "object": kind, "created": 1_700_000_000, "model": asked.model}


def _reason(act: str | Call) -> str:
    return "stop" if isinstance(act, str) else "tool_calls"


def _message(act: str | Call) -> dict[str, Any]:
    if isinstance(act, str):
        return {"role": "assistant", "content": act}
    function = {"name": act.name, "arguments": json.dumps(act.arguments)}
    call = {"index": 0, "id": f"call_{uuid.uuid4().hex[:10]}", "type": "function"}
    return {"role": "assistant", "content": None, "tool_calls": [{**call, "function": function}]}
