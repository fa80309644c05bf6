"""A scripted model on loopback, for CLIs that must not know the difference.

    http://127.0.0.1:PORT/SCENARIO/PLACE/…   speaks Messages, Responses, chat completions and Gemini

The scenario stands in the path and the step is read off the request's own history, so one server
serves any number of runs and keeps no state. It is also the only proxy that the CLIs are given: a
request for another machine is noted in `asked_for` and refused.
"""

from __future__ import annotations

import gzip
import json
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.model import anthropic, chat, gemini, responses
from tests.support.model.faults import Fault, anthropic_fault, gemini_fault, openai_fault
from tests.support.model.script import Move, Refuse, Say, Silence, next_move, scenarios
from tests.support.model.toolbox import Call, choose

_WORKING = 5  # a request with fewer tools is for a title or a check
_HELD_S = 600  # at most: nobody waits that long
_APIS = {
    "messages": (anthropic, anthropic_fault),
    "responses": (responses, openai_fault),
    "completions": (chat, openai_fault),
    "gemini": (gemini, gemini_fault),
}


class ModelServer(ThreadingHTTPServer):
    """The server. `log` gets one line of JSON per request, without its body."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, outside: Path, log: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._outside = outside
        self.asked_for: set[str] = set()
        self.ending = threading.Event()
        self._log, self._lock = log, threading.Lock()

    @property
    def url(self) -> str:
        """Return where it listens, without a scenario."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def moves(self, scenario: str, place: str) -> tuple[Move, ...] | None:
        """Return the moves of `scenario`, whose writes outside go to the folder `place`."""
        return scenarios(str(self._outside / place)).get(scenario)

    def note(self, **facts: Any) -> None:
        """Write down one request."""
        with self._lock, self._log.open("a") as log:
            log.write(json.dumps({"at": round(time.time(), 3), **facts}) + "\n")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours; anything else is written down."""
        import traceback

        self.note(error=traceback.format_exc()[-2_000:])


@contextmanager
def running_model(folder: Path, outside: Path) -> Iterator[ModelServer]:
    """Yield a running server that logs into `folder`; it is closed afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    server = ModelServer(outside, folder / "model.jsonl")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="model", daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: Any) -> None:
        """Nothing goes to stderr."""

    def do_CONNECT(self) -> None:
        """Refuse to lead anywhere else."""
        self._refuse_place(self.path)

    def do_GET(self) -> None:
        """Answer what CLIs look up before they talk."""
        self._answer({})

    def do_POST(self) -> None:
        """Answer one turn."""
        data = self._body()
        try:
            body = json.loads(data) if data else {}
        except ValueError:
            body = {}
        self._answer(body if isinstance(body, dict) else {})

    do_HEAD = do_PUT = do_GET

    def _answer(self, body: dict[str, Any]) -> None:
        if not self.path.startswith("/"):
            self._refuse_place(self.path)
            return
        scenario, _, rest = self.path.lstrip("/").partition("/")
        path = rest.partition("?")[0]
        moves = self.server.moves(scenario, rest.partition("/")[0] or "nowhere")
        kind = _kind(path)
        if moves is None or not kind:
            self._send(*_lookup(path))
        elif kind == "count":
            self._send(200, {"input_tokens": 42, "totalTokens": 42})
        else:
            self._turn(kind, moves, body, streamed="streamGenerateContent" in path)

    def _turn(
        self, kind: str, moves: tuple[Move, ...], body: dict[str, Any], *, streamed: bool
    ) -> None:
        api, fault_of = _APIS[kind]
        asked = api.read(body)
        move = next_move(moves, asked)
        self.server.note(path=self.path, move=str(move)[:200], tools=len(asked.tools))
        if isinstance(move, Refuse):
            fault: Fault = fault_of(move.fault, int(time.time()))
            self._send(fault.status, fault.body, fault.headers)
        elif isinstance(move, Silence):
            self._be_silent(api.stream("Half an answer that", asked), move)
        else:
            shaped = gemini.filled(body) if kind == "gemini" else None
            act = shaped or _act(move, asked)
            if streamed or asked.streamed:
                self._stream(api.stream(act, asked), last="[DONE]" if kind == "completions" else "")
            else:
                self._send(200, api.whole(act, asked))

    def _be_silent(self, events: Iterator[tuple[str, dict[str, Any]]], move: Silence) -> None:
        self.close_connection = True
        if move.begun:
            self._begin_stream()
            for name, event in events:
                if name.endswith(("_stop", ".done", ".completed")):
                    break
                self._chunk(name, event)
                if not name:
                    break
        if not move.cut:
            self._hold()

    def _hold(self) -> None:
        """Keep the connection until the client is gone, or the server ends."""
        until = time.monotonic() + _HELD_S
        while time.monotonic() < until and not self.server.ending.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.2)
            if readable and not self.connection.recv(1_024):
                return

    def _stream(self, events: Iterator[tuple[str, dict[str, Any]]], last: str) -> None:
        self._begin_stream()
        for name, event in events:
            self._chunk(name, event)
        if last:
            self._raw(f"data: {last}\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, name: str, event: dict[str, Any]) -> None:
        head = f"event: {name}\n" if name else ""
        self._raw(f"{head}data: {json.dumps(event)}\n\n")

    def _raw(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _send(
        self, status: int, body: dict[str, Any], headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in (("content-type", "application/json"), *headers):
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
        self.server.note(path=self.path, status=status)

    def _refuse_place(self, place: str) -> None:
        self.server.asked_for.add(place)
        self.close_connection = True
        self._send(403, {"error": {"message": "there is no way to other machines"}})

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            data = b"".join(parts)
        else:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
        return gzip.decompress(data) if self.headers.get("content-encoding") == "gzip" else data


def _kind(path: str) -> str:
    if path.endswith(("/count_tokens", ":countTokens")):
        return "count"
    if "enerateContent" in path:
        return "gemini"
    last = path.rpartition("/")[2]
    return last if last in _APIS else ""


def _lookup(path: str) -> tuple[int, dict[str, Any]]:
    if path.endswith("/models"):
        model = {"id": "scripted", "object": "model", "created": 1, "owned_by": "nobody"}
        return 200, {"object": "list", "data": [model], "models": []}
    return 404, {"error": {"type": "not_found_error", "message": f"no such place: {path}"}}


def _act(move: Move, asked: Any) -> str | Call:
    if isinstance(move, Say):
        return move.text
    call = choose(move, asked)
    if call is None and len(asked.tools) >= _WORKING:
        # Not offered, and asked for all the same: how a tool of another mode is denied.
        return Call("run_shell_command", {"command": str(move), "description": "A step"})
    return call or "Short title"
