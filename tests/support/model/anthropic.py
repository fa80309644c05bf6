"""Anthropic's Messages API: how a request is read, and how a text or a tool call is answered."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.model.conversation import Conversation, folder_in, texts_of
from tests.support.model.toolbox import Call

USAGE = {
    "input_tokens": 123,
    "cache_creation_input_tokens": 10,
    "cache_read_input_tokens": 20,
    "output_tokens": 45,
}


def read(body: dict[str, Any]) -> Conversation:
    """Return what a request says."""
    asked, answered = [], 0
    for message in body.get("messages", []):
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        answered += sum(part.get("type") == "tool_result" for part in parts)
        if message.get("role") == "user":
            asked += texts_of(content)
    tools = {
        tool["name"]: tool.get("input_schema", {}).get("properties", {})
        for tool in body.get("tools") or []
        if "name" in tool
    }
    folder = folder_in([*texts_of(body.get("system")), *asked])
    model, streamed = str(body.get("model", "")), body.get("stream") is True
    return Conversation(tuple(asked), answered, tools, folder, model, streamed)


def whole(act: str | Call, asked: Conversation) -> dict[str, Any]:
    """Return the answer as one document."""
    stop = "end_turn" if isinstance(act, str) else "tool_use"
    return {**_message(asked), "content": [_block(act)], "stop_reason": stop, "usage": USAGE}


def stream(act: str | Call, asked: Conversation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events of the answer; what stands before the first stop is half of it."""
    block = _block(act)
    yield _event(
        "message_start", message={**_message(asked), "usage": USAGE | {"output_tokens": 1}}
    )
    if isinstance(act, str):
        yield _event("content_block_start", index=0, content_block={**block, "text": ""})
        delta = {"type": "text_delta", "text": act}
    else:
        yield _event("content_block_start", index=0, content_block={**block, "input": {}})
        delta = {"type": "input_json_delta", "partial_json": json.dumps(act.arguments)}
    yield _event("content_block_delta", index=0, delta=delta)
    yield _event("content_block_stop", index=0)
    stop = "end_turn" if isinstance(act, str) else "tool_use"
    ended = {"stop_reason": stop, "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage={"output_tokens": USAGE["output_tokens"]})
    yield _event("message_stop")


def _event(name: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return name, {"type": name, **fields}


def _message(asked: Conversation) -> dict[str, Any]:
    return {
        "id": f"msg_{uuid.uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _block(act: str | Call) -> dict[str, Any]:
    if isinstance(act, str):
        return {"type": "text", "text": act}
    call_id = f"toolu_{uuid.uuid4().hex[:20]}"
    return {"type": "tool_use", "id": call_id, "name": act.name, "input": act.arguments}
