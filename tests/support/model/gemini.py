"""Gemini's generateContent and streamGenerateContent: how a request is read and answered."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.support.model.conversation import Conversation, folder_in, texts_of
from tests.support.model.toolbox import Call

USAGE = {
    "promptTokenCount": 123,
    "candidatesTokenCount": 45,
    "totalTokenCount": 168,
    "cachedContentTokenCount": 20,
}


def read(body: dict[str, Any]) -> Conversation:
    """Return what a request says. Whether it is streamed stands in the path, not in the body."""
    asked, told, answered = [], texts_of((body.get("systemInstruction") or {}).get("parts")), 0
    for message in body.get("contents", []):
        parts = message.get("parts", [])
        answered += sum("functionResponse" in part for part in parts)
        texts = texts_of(parts)
        told += texts
        asked += texts if message.get("role") != "model" else []
    tools = {
        one["name"]: (one.get("parameters") or one.get("parametersJsonSchema") or {}).get(
            "properties", {}
        )
        for group in body.get("tools") or []
        for one in group.get("functionDeclarations", [])
    }
    return Conversation(tuple(asked), answered, tools, folder_in(told), "", streamed=False)


def whole(act: str | Call, _asked: Conversation) -> dict[str, Any]:
    """Return the answer as one document."""
    return {**_candidate(_part(act), "STOP"), "usageMetadata": USAGE}


def stream(act: str | Call, _asked: Conversation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the chunks of the answer; the first one is half of it."""
    yield "", _candidate(_part(act), None)
    yield "", {**_candidate({"text": ""}, "STOP"), "usageMetadata": USAGE}


def filled(body: dict[str, Any]) -> str | None:
    """Return an answer of the shape that a request without tools asks for: a router or a checker
    wants JSON of its own schema. None: it wants no shape."""
    settings = body.get("generationConfig") or {}
    schema = settings.get("responseJsonSchema") or settings.get("responseSchema")
    if not schema or body.get("tools"):
        return None
    return json.dumps({name: _value(of) for name, of in schema.get("properties", {}).items()})


def _value(schema: dict[str, Any]) -> Any:
    kind = str(schema.get("type", "")).lower()
    if kind == "string":
        return (schema.get("enum") or ["none"])[0]
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return [] if kind == "array" else {} if kind == "object" else True


def _part(act: str | Call) -> dict[str, Any]:
    if isinstance(act, str):
        return {"text": act}
    call = {"name": act.name, "args": act.arguments, "id": f"call{uuid.uuid4().hex[:8]}"}
    return {"functionCall": call}


def _candidate(part: dict[str, Any], reason: str | None) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [part]}, "index": 0}
    if reason:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "scripted", "responseId": "scripted"}
