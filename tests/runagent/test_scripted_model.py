"""The scripted model of `make e2e` answers in each API's own shape, and reads every step off the
request: asked the same twice, it says the same twice."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.model.script import HEAD, TAIL
from tests.support.model.server import ModelServer, running_model

_SHELL = {"command": {"type": "string"}, "description": {"type": "string"}}
_WRITE = {"file_path": {"type": "string"}, "content": {"type": "string"}}
_PLACE = "Working directory: /srv/tree"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    folder = tmp_path_factory.mktemp("model")
    with running_model(folder, Path("/beyond")) as server:
        yield server


def _ask(model: ModelServer, path: str, body: dict[str, Any]) -> tuple[int, bytes, Any]:
    door = http.client.HTTPConnection("127.0.0.1", model.server_address[1], timeout=30)
    try:
        door.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = door.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        door.close()


def _events(data: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in data.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def _anthropic(*turns: dict[str, Any], prompt: str = "Do it.") -> dict[str, Any]:
    tools = [
        {"name": "Write", "input_schema": {"properties": _WRITE}},
        {"name": "Bash", "input_schema": {"properties": _SHELL}},
    ]
    first = {"role": "user", "content": [{"type": "text", "text": prompt}]}
    return {"model": "m", "system": _PLACE, "messages": [first, *turns], "tools": tools}


def _chat(*turns: dict[str, Any], prompt: str = "Do it.") -> dict[str, Any]:
    function = {"name": "write", "parameters": {"properties": _WRITE}}
    tools = [{"type": "function", "function": function}]
    told = {"role": "system", "content": _PLACE}
    return {
        "model": "m",
        "messages": [told, {"role": "user", "content": prompt}, *turns],
        "tools": tools,
    }


def _responses(*items: dict[str, Any], prompt: str = "Do it.") -> dict[str, Any]:
    tools = [
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"cmd": {}}}},
        {"type": "custom", "name": "apply_patch"},
    ]
    first = {"role": "user", "content": [{"type": "input_text", "text": prompt}]}
    return {"model": "m", "input": [{"type": "message", **first}, *items], "tools": tools}


def _gemini(*turns: dict[str, Any], prompt: str = "Do it.") -> dict[str, Any]:
    declared = {"name": "write_file", "parametersJsonSchema": {"properties": _WRITE}}
    first = {"role": "user", "parts": [{"text": f"{_PLACE}\n{prompt}"}]}
    return {"contents": [first, *turns], "tools": [{"functionDeclarations": [declared]}]}


_DONE = {
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]},
    "chat": {"role": "tool", "content": "ok"},
    "responses": {"type": "custom_tool_call_output", "output": "ok"},
    "gemini": {"role": "user", "parts": [{"functionResponse": {"response": {"output": "ok"}}}]},
}
_APIS = {
    "anthropic": (_anthropic, "v1/messages"),
    "chat": (_chat, "v1/chat/completions"),
    "responses": (_responses, "v1/responses"),
    "gemini": (_gemini, "v1beta/models/m:generateContent"),
}


def _act(api: str, body: dict[str, Any]) -> Any:
    """Return the name of the tool that a whole answer calls, or the text it says."""
    if api == "anthropic":
        block = body["content"][0]
        return block.get("name") or block["text"]
    if api == "chat":
        message = body["choices"][0]["message"]
        calls = message.get("tool_calls")
        return calls[0]["function"]["name"] if calls else message["content"]
    if api == "responses":
        item = body["output"][0]
        return item.get("name") or item["content"][0]["text"]
    part = body["candidates"][0]["content"]["parts"][0]
    return part["functionCall"]["name"] if "functionCall" in part else part["text"]


@pytest.mark.parametrize("api", _APIS)
def test_the_step_follows_from_the_history_alone(model: ModelServer, api: str) -> None:
    make, path = _APIS[api]
    tool = {"anthropic": "Write", "chat": "write", "responses": "apply_patch"}.get(
        api, "write_file"
    )
    for _ in range(2):
        status, data, _ = _ask(model, f"/write/{api}/{path}", make())
        assert (status, _act(api, json.loads(data))) == (200, tool)
    status, data, _ = _ask(model, f"/write/{api}/{path}", make(_DONE[api]))
    assert (status, _act(api, json.loads(data))) == (200, "Wrote hello.txt.")


@pytest.mark.parametrize("api", _APIS)
def test_a_file_is_written_in_the_folder_that_the_request_names(
    model: ModelServer, api: str
) -> None:
    make, path = _APIS[api]
    _, data, _ = _ask(model, f"/write/{api}/{path}", make())
    wanted = b"Add File: hello.txt" if api == "responses" else b"/srv/tree/hello.txt"
    assert wanted in data


@pytest.mark.parametrize("api", _APIS)
def test_the_prompt_is_measured_byte_for_byte(model: ModelServer, api: str) -> None:
    make, path = _APIS[api]
    prompt = f"-{HEAD} $(id) 'a' \"b\"\n\té🚀 {TAIL}"
    said = _act(api, json.loads(_ask(model, f"/echo/x/{path}", make(prompt=prompt))[1]))
    other = _act(api, json.loads(_ask(model, f"/echo/x/{path}", make(prompt=prompt + " "))[1]))
    cut = prompt.replace("$(id)", "")
    less = _act(api, json.loads(_ask(model, f"/echo/x/{path}", make(prompt=cut))[1]))
    assert f"received {len(prompt.encode())} bytes" in said
    assert said.split()[4] == other.split()[4] != less.split()[4]
    if api != "gemini":
        assert (said.split()[-1], other.split()[-1]) == ("alone", "wrapped")


@pytest.mark.parametrize(
    ("api", "first", "last"),
    [
        ("anthropic", "message_start", "message_stop"),
        ("responses", "response.created", "response.completed"),
    ],
)
def test_named_events_begin_and_end_an_answer(
    model: ModelServer, api: str, first: str, last: str
) -> None:
    make, path = _APIS[api]
    _, data, headers = _ask(model, f"/talk/x/{path}", make() | {"stream": True})
    names = [event["type"] for event in _events(data)]
    assert (headers["content-type"], names[0], names[-1]) == ("text/event-stream", first, last)
    assert b"Nothing to do." in data


def test_chat_chunks_end_with_their_word_and_gemini_with_a_reason(model: ModelServer) -> None:
    _, data, _ = _ask(model, "/talk/x/v1/chat/completions", _chat() | {"stream": True})
    assert data.rstrip().endswith(b"data: [DONE]")
    assert _events(data)[-1]["choices"][0]["finish_reason"] == "stop"
    path = "/talk/x/v1beta/models/m:streamGenerateContent?alt=sse"
    _, data, _ = _ask(model, path, _gemini())
    assert _events(data)[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("api", _APIS)
@pytest.mark.parametrize(
    ("scenario", "status"),
    [("rate-limit", 429), ("usage-limit", 429), ("unauthorized", 401), ("server-error", 500)],
)
def test_errors_have_their_status_on_every_api(
    model: ModelServer, api: str, scenario: str, status: int
) -> None:
    make, path = _APIS[api]
    told, data, headers = _ask(model, f"/{scenario}/x/{path}", make())
    assert (told, "error" in json.loads(data)) == (status, True)
    if (api, scenario) == ("anthropic", "usage-limit"):
        resets = int(headers["anthropic-ratelimit-unified-reset"])
        assert resets > time.time() + 3_600


@pytest.mark.parametrize("api", _APIS)
def test_a_dropped_stream_ends_in_the_middle(model: ModelServer, api: str) -> None:
    make, path = _APIS[api]
    path = path.replace(":generateContent", ":streamGenerateContent")
    with pytest.raises(http.client.IncompleteRead) as caught:
        _ask(model, f"/drop/x/{path}", make() | {"stream": True})
    said = caught.value.partial
    assert b"Half an answer" in said
    assert not any(word in said for word in (b"message_stop", b"response.completed", b"STOP"))


def test_a_silent_model_holds_the_line_until_its_caller_goes(model: ModelServer) -> None:
    door = http.client.HTTPConnection("127.0.0.1", model.server_address[1], timeout=0.5)
    before = threading.active_count()
    door.request("POST", "/hang/x/v1/messages", json.dumps(_anthropic()))
    with pytest.raises(TimeoutError):
        door.getresponse()
    door.close()
    until = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.02)
    assert threading.active_count() <= before


def test_a_request_without_tools_gets_a_title_and_no_step(model: ModelServer) -> None:
    body = {name: value for name, value in _anthropic().items() if name != "tools"}
    _, data, _ = _ask(model, "/write/x/v1/messages", body)
    assert _act("anthropic", json.loads(data)) == "Short title"


def test_there_is_no_way_to_another_machine(model: ModelServer) -> None:
    door = http.client.HTTPConnection("127.0.0.1", model.server_address[1], timeout=30)
    door.request("CONNECT", "elsewhere.invalid:443")
    assert door.getresponse().status == 403
    door.close()
    assert "elsewhere.invalid:443" in model.asked_for
