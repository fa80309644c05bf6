"""The HTTP door of a `Host` of these tests: honest requests, raw ones, and its signed answers read
as a sender reads them."""

from __future__ import annotations

import http.client
import socket
import time
from dataclasses import dataclass
from typing import Any

from contracts.ask import AskClaims
from contracts.delivery import DeliveryClaims, DeliveryCode, read_delivery_claims
from contracts.dispatch_result import ResultClaims
from contracts.envelope import ASK_TYPE, DELIVERY_TYPE, RESULT_TYPE, open_envelope, seal
from contracts.ids import new_job_id
from contracts.run_agent import RunAgentResult
from contracts.strict_json import dump_strict
from dispatch.keys import ASK, DELIVERY
from tests.support.broker import free_port
from tests.support.hosts import Host

REFUSED = b'{"error":"refused"}'


@dataclass(frozen=True)
class Answer:
    """What came back, and what it says if a host's word is in it."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Door:
    """The door of `host`, at a port of this machine."""

    host: Host
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> Answer:
        """Send one request on a fresh connection and return its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        try:
            connection.request(method, path, body or None, headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def post(self, envelope: str) -> Answer:
        """Post the text of a job."""
        return self.request("POST", "/v1/jobs", envelope.encode())

    def post_until_taken(self, envelope: str, seconds: float = 90.0) -> Answer:
        """Post as an honest sender does: the same bytes again while no slot is free."""
        give_up = time.monotonic() + seconds
        while True:
            answer = self.post(envelope)
            if answer.status != 503 or time.monotonic() > give_up:
                return answer
            time.sleep(0.1)

    def ask(self, job_id: str, *, what: str = "result", wait_s: int = 0, **changes: Any) -> Answer:
        """Ask as the sender of the job."""
        return self.send_ask(self.sign_ask(job_id, what=what, **changes), wait_s=wait_s)

    def send_ask(self, envelope: str, *, wait_s: int = 0) -> Answer:
        return self.request("POST", f"/v1/ask?wait={wait_s}", envelope.encode())

    def sign_ask(self, job_id: str, *, what: str = "result", **changes: Any) -> str:
        """Return the envelope of a question."""
        now, sender = int(time.time()), self.host.sender
        honest = {
            "iss": sender.name,
            "aud": self.host.aud,
            "jti": job_id,
            "iat": now,
            "exp": now + 60,
            "nonce": new_job_id(),
            "what": what,
        }
        claims = AskClaims.model_validate(honest | changes).model_dump(mode="json")
        return seal(dump_strict(claims), ASK_TYPE, sender.keyring.signers(ASK, claims["aud"]))

    def receipt(self, answer: Answer) -> DeliveryClaims:
        """Return the host's word in an answer, whose signature must hold."""
        keys = self.host.sender.keyring.host_keys(DELIVERY)
        claims = read_delivery_claims(open_envelope(answer.body, keys, DELIVERY_TYPE).payload)
        assert (claims.iss, claims.aud) == (self.host.name, self.host.sender.name)
        return claims

    def code(self, answer: Answer) -> DeliveryCode:
        return self.receipt(answer).code

    def result(self, job_id: str, seconds: float = 90.0) -> RunAgentResult:
        """Ask until the result is there, and return it verified."""
        return read_result(self.host, self.result_bytes(job_id, seconds))

    def result_bytes(self, job_id: str, seconds: float = 90.0) -> bytes:
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            answer = self.ask(job_id, wait_s=20)
            if answer.status == 200:
                return answer.body
            assert answer.status == 202, f"{answer}\n{self.host.log[-4000:]}"
        raise AssertionError(f"no result of {job_id}\n{self.host.log[-4000:]}")

    def run_honest_job(self) -> RunAgentResult:
        """Post an honest job and return its result, which must be a completed one."""
        claims = self.host.job()
        answer = self.post_until_taken(self.host.sender.sign(claims))
        assert answer.status == 202, f"{answer}\n{self.host.log[-4000:]}"
        result = self.result(claims["jti"])
        assert result.status == "completed", f"{result}\n{self.host.log[-4000:]}"
        return result

    def raw(self, data: bytes, *, seconds: float = 30.0) -> bytes:
        """Send bytes as they are and return what comes back until the door hangs up."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            received = b""
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                while chunk := connection.recv(65_536):
                    received += chunk
            except (ConnectionError, TimeoutError, OSError):
                pass
            return received


def open_door(host: Host, *options: str) -> Door:
    """Let the listener of `host`, which must not run, open a door when it starts."""
    port = free_port()
    host.options = (*host.options, "--http", f"127.0.0.1:{port}", *options)
    return Door(host, port)


def read_result(host: Host, envelope: bytes) -> RunAgentResult:
    """Return the result in an envelope of `host`, whose signature must hold."""
    opened = open_envelope(envelope, host.sender.keyring, RESULT_TYPE)
    claims = ResultClaims.model_validate_json(opened.payload)
    return RunAgentResult.model_validate_json(claims.payload.stdoutTail)
