"""A sender before doors that lie, drip, break off or are away: what it believes and tells."""

from __future__ import annotations

import base64
import json
import socket
import time
from pathlib import Path

import pytest

from contracts.delivery import DeliveryCode, delivery_claims
from contracts.envelope import DELIVERY_TYPE, seal
from contracts.errors import AnswerLost, ExitCode, InvalidRequest, Unavailable, WaitTimedOut
from dispatch.cancelling import CancelState
from dispatch.client import FleetClient
from dispatch.http import exchange as exchange_module
from dispatch.http.address import DoorAddress, parse_door_url
from dispatch.http.exchange import exchange
from dispatch.keys import DELIVERY
from dispatch.queue import Pushed
from dispatch.sent import SentJobs
from tests.dispatch.desk import PAYLOAD, Desk
from tests.support.broker import Broker
from tests.support.scripted_door import Act, hang_up, reply, scripted_door


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk that knows no broker."""
    desk = Desk(tmp_path / "home", Broker(tmp_path / "never-started"))
    desk.enrol("PC1", "A")
    return desk


def said(desk: Desk, code: DeliveryCode, *, status: int = 202, state: str = "started") -> Act:
    """Return what answers a posted or cancelled job of this desk as its host PC1 would."""

    def act(connection: socket.socket, request: bytes) -> None:
        (job,) = SentJobs(desk.settings.places.sent_file).recent(1)
        nonce = ""
        if b"/v1/ask" in request:
            nonce = json.loads(asked_payload(request))["nonce"]
        claims = delivery_claims(
            host="PC1",
            sender="alice",
            job_id=job.job_id,
            job_sha256=job.sha256,
            code=code,
            now=time.time(),
            state=state,
            nonce=nonce,
        )
        signer = desk.host_ring("PC1").host_signer(DELIVERY, "alice")
        text = seal(claims.model_dump_json().encode(), DELIVERY_TYPE, [signer])
        reply(status, text)(connection, request)

    return act


def asked_payload(request: bytes) -> bytes:
    envelope = json.loads(request.partition(b"\r\n\r\n")[2])
    return base64.b64decode(envelope["payload"])


def send(client: FleetClient, url: str) -> str:
    return client.send(PAYLOAD, target=url, lane="A").job_id


def test_a_lost_answer_is_asked_for_once_more_with_the_same_bytes(desk: Desk) -> None:
    script = (hang_up, said(desk, DeliveryCode.DUPLICATE))
    with scripted_door(*script) as door, desk.client() as client:
        job = client.send(PAYLOAD, target=door.url, lane="A")
    assert job.pushed is Pushed.ALREADY_THERE
    assert len(door.requests) == 2
    assert door.requests[0] == door.requests[1]


def test_an_answer_that_stays_lost_names_the_job_and_is_not_called_nothing_started(
    desk: Desk,
) -> None:
    """Under a new id the same payload is another job: who is told to send again needs its id."""
    for act in (hang_up, reply(502, b"<html>"), reply(504)):
        with scripted_door(act) as door, desk.client() as client:
            with pytest.raises(AnswerLost, match="it may have job") as lost:
                send(client, door.url)
            job_id = client.jobs(1)[0].job_id
            assert f"fleet-dispatch wait {job_id}" in lost.value.remedy
            assert lost.value.exit_code is ExitCode.WAIT_TIMED_OUT


def test_a_peer_that_drips_is_left_when_the_time_of_the_exchange_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each byte comes in time for a socket's own timeout: the control reads on and on."""

    def drip(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 X\r\nContent-Length: 9000\r\n\r\n")
        for _ in range(600):
            connection.sendall(b" ")
            time.sleep(0.1)

    monkeypatch.setattr(exchange_module, "EXCHANGE_TIMEOUT_S", 1.0)
    with scripted_door(drip) as door:
        began = time.monotonic()
        with pytest.raises(AnswerLost, match="did not answer in time"):
            exchange(parse_door_url(door.url), "/v1/ask", "{}")
        assert time.monotonic() - began < 40, "it would drip for a minute"


def test_neither_a_refusal_nor_an_earlier_receipt_loses_a_cancel(desk: Desk) -> None:
    accepted = said(desk, DeliveryCode.ACCEPTED)
    with scripted_door(accepted) as door, desk.client() as client:
        job_id = send(client, door.url)
        for answer in (reply(404), reply(403, "{}"), accepted):
            door.script[:] = [answer]
            assert client.cancel(job_id).state is CancelState.KEPT
        door.script[:] = [said(desk, DeliveryCode.CANCELLING)]
        assert client.cancel(job_id).state is CancelState.CANCELLING


def test_a_door_where_nobody_may_wait_is_asked_with_pauses_and_one_behind_a_proxy_waited_for(
    desk: Desk,
) -> None:
    script = (said(desk, DeliveryCode.ACCEPTED), reply(502), said(desk, DeliveryCode.ACCEPTED))
    with scripted_door(*script) as door, desk.client() as client:
        job_id = send(client, door.url)
        with pytest.raises(WaitTimedOut):
            client.wait(job_id, 5.0)
        assert 3 <= len(door.requests) <= 6


def test_no_proxy_of_the_environment_sees_a_job(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        scripted_door(reply(200)) as proxy,
        scripted_door(said(desk, DeliveryCode.ACCEPTED), address="::1") as door,
        desk.client() as client,
    ):
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert send(client, door.url)
        assert door.url.startswith("http://[::1]:")
        assert b"\r\nHost: [::1]:" in door.requests[0]
        assert proxy.requests == []


def test_many_jobs_of_one_door_that_is_away_cost_one_wait_for_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def away(address: DoorAddress, path: str, _text: str, **_: object) -> None:
        tried.append(path)
        raise Unavailable(f"{address.url} did not answer in time")

    with scripted_door(said(desk, DeliveryCode.ACCEPTED)) as door, desk.client() as client:
        ids = [send(client, door.url) for _ in range(8)]
        monkeypatch.setattr("dispatch.http.doors.exchange", away)
        assert {view.job_id for view in client.jobs()} == set(ids)
    assert 1 <= len(tried) < 8


def test_a_file_of_authorities_is_found_again_from_another_folder(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with desk.client() as client, pytest.raises(InvalidRequest, match="cacert"):
        client.send(PAYLOAD, target="https://127.0.0.1:9", lane="A", cacert="ca.pem")
    (job,) = SentJobs(desk.settings.places.sent_file).recent(1)
    assert job.cacert == str(tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("url", "cacert", "error"),
    [
        (f"http://{'a' * 64}.example", "", InvalidRequest),
        ("http://a..b", "", InvalidRequest),
        ("https://127.0.0.1:9", "~nobody-of-that-name/ca.pem", InvalidRequest),
        ("https://127.0.0.1:9", "a\0b", InvalidRequest),
        ("http://127.0.0.1:9", "", Unavailable),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_words(
    url: str, cacert: str, error: type[Exception]
) -> None:
    with pytest.raises(error):
        exchange(parse_door_url(url, cacert=cacert), "/v1/ask", "{}")
