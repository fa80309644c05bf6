"""Whoever reaches the port: slow, huge, many, misled or malformed. Refused with one word, others
are served, the listener stays small and does the next honest job."""

from __future__ import annotations

import http.client
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from contracts.delivery import DeliveryCode
from tests.support.broker import free_port
from tests.support.desk import peak_bytes
from tests.support.fleet import wait_until
from tests.support.http_door import REFUSED, Door

RSS_MAX_BYTES = 150_000_000
CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.bin"))
_PLAIN = """
import sys, uvicorn
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", lifespan="off")
"""
_HALF_A_HEAD = b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
_HEAD_DEADLINE_S = 5


@contextmanager
def plain_server() -> Iterator[int]:
    """Yield the port of a uvicorn as it comes: what the attacks are first shown on."""
    port = free_port()
    server = subprocess.Popen([sys.executable, "-c", _PLAIN, str(port)])
    try:
        wait_until(lambda: _connects(port), "the plain server listens", 60)
        yield port
    finally:
        server.terminate()
        server.wait(30)


def _connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def is_held(connection: socket.socket, seconds: float) -> bool:
    """Drip into a connection for `seconds`; say whether the other side still has it."""
    give_up = time.monotonic() + seconds
    connection.settimeout(0.2)
    while time.monotonic() < give_up:
        try:
            connection.sendall(b"a")
            if connection.recv(1) == b"":
                return False
        except TimeoutError:
            continue
        except OSError:
            return False
    return True


def test_a_head_that_never_ends_holds_a_plain_server_and_not_the_door(door: Door) -> None:
    with plain_server() as port, ExitStack() as stack:
        pair = []
        for number in (port, door.port):
            connection = socket.create_connection(("127.0.0.1", number), timeout=10)
            stack.callback(connection.close)
            connection.sendall(_HALF_A_HEAD)
            pair.append(connection)
        assert is_held(pair[0], _HEAD_DEADLINE_S + 2), "the control: it waits for ever"
        assert not is_held(pair[1], 60)


def test_a_flood_of_silent_connections_keeps_nobody_out(door: Door) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            connection = socket.create_connection(("127.0.0.1", door.port), timeout=30)
            stack.callback(connection.close)
            connection.sendall(_HALF_A_HEAD)
        door.run_honest_job()
    assert peak_bytes(door.host.pid) < RSS_MAX_BYTES


def test_a_flood_of_bodies_that_never_come_keeps_nobody_out(door: Door) -> None:
    """Each has sent a whole head and owes its body: they push each other out, and not the next."""
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n{"
    with ExitStack() as stack:
        for _ in range(100):
            connection = socket.create_connection(("127.0.0.1", door.port), timeout=30)
            stack.callback(connection.close)
            connection.sendall(head)
        answer = door.request("GET", "/v1/health")
        assert answer.status == 200
        door.run_honest_job()


def test_a_body_that_says_it_is_huge_is_refused_before_any_of_it_is_read(door: Door) -> None:
    head = b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 999999999999\r\n\r\n"
    answer = door.raw(head)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(REFUSED)


def test_a_body_that_does_not_say_how_huge_it_is_is_counted_while_it_comes(door: Door) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", door.port, timeout=90)
    sent = 0

    def stream() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(400):
            sent += 262_144
            yield b" " * 262_144

    status = 0
    try:
        connection.request("POST", "/v1/jobs", stream(), encode_chunked=True)
        status = connection.getresponse().status
    except OSError:
        pass  # it hung up while we were still sending: as good
    finally:
        connection.close()
    assert status in (0, 413)
    assert sent < 100_000_000, "it did not take it all"
    assert peak_bytes(door.host.pid) < RSS_MAX_BYTES
    door.run_honest_job()


def test_the_largest_body_of_nobody_leaves_the_listener_small(door: Door) -> None:
    kind = b"application/vnd.fleet-dispatch.job.v1+json"
    head = b'{"v":1,"payloadType":"%s","sigs":[{"kid":"nobody","mac":"AAAA"}],"payload":"' % kind
    for body in (head + b"A" * 8_388_000 + b'"}', b'{"v":1,"payload":"' + b"A" * 8_388_000):
        answer = door.request("POST", "/v1/jobs", body)
        assert (answer.status, answer.body) == (403, REFUSED)
    assert peak_bytes(door.host.pid) < RSS_MAX_BYTES


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_an_honest_job_under_a_wrong_host_or_from_a_page_is_not_taken(
    headers: dict[str, str], status: int, door: Door
) -> None:
    claims = door.host.job()
    text = door.host.sender.sign(claims).encode()
    answer = door.request("POST", "/v1/jobs", text, headers)
    assert (answer.status, answer.body) == (status, REFUSED)
    assert door.code(door.ask(claims["jti"])) is DeliveryCode.UNKNOWN


def test_every_refusal_says_the_same_and_nothing_of_the_server(door: Door) -> None:
    claims = door.host.job()
    text = door.host.sender.sign(claims)
    altered = text.replace('"mac":"', '"mac":"AAAA', 1)
    elsewhere = door.host.job(aud="host:OTHER")
    foreign = door.host.sender.sign(elsewhere, for_aud=door.host.aud)
    late = door.host.job(iat=1_000_000_000, exp=1_000_003_600)
    answers = [
        door.post(altered),
        door.post(foreign),
        door.post("{}"),
        door.send_ask(text),
        door.request("POST", "/v1/cancel", text.encode()),
        door.request("GET", "/v1/jobs"),
        door.request("GET", "/"),
        door.request("POST", "/v1/health", b"x"),
    ]
    assert {answer.body for answer in answers} == {REFUSED}
    assert {answer.status for answer in answers} == {403, 404, 405}
    for answer in [*answers, door.request("GET", "/v1/health")]:
        names = {name.lower() for name in answer.headers}
        assert not names & {"server", "date", "x-powered-by"}
        assert answer.headers["connection"] == "close"
    expired = door.receipt(door.post(door.host.sender.sign(late)))
    assert (expired.code, expired.note) == (DeliveryCode.REFUSED, "its time is over")


def test_one_connection_has_one_request(door: Door) -> None:
    one = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert door.raw(one * 50).count(b"HTTP/1.1 ") == 1


def test_a_job_that_was_copied_on_its_way_starts_nothing_again(door: Door) -> None:
    claims = door.host.job()
    text = door.host.sender.sign(claims)
    assert door.code(door.post_until_taken(text)) is DeliveryCode.ACCEPTED
    assert door.result(claims["jti"]).status == "completed"
    starts = door.host.starts
    assert {door.code(door.post(text)) for _ in range(5)} == {DeliveryCode.DUPLICATE}
    assert door.host.starts == starts


def test_what_is_no_honest_request_is_refused_byte_for_byte_and_the_next_honest_job_is_done(
    door: Door,
) -> None:
    """The recorded corpus, then the same with bytes changed by a fixed seed."""
    assert len(CORPUS) > 50
    chance = random.Random(20260101)
    texts = [path.read_bytes() for path in CORPUS]
    changed = [_changed(chance, chance.choice(texts)) for _ in range(150)]
    log = len(door.host.log)
    for text in [*texts, *changed]:
        answer = door.raw(text)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 503")), (text, answer)
        assert b"Traceback" not in answer
    assert "door_failed" not in door.host.log[log:]
    assert peak_bytes(door.host.pid) < RSS_MAX_BYTES
    door.run_honest_job()


def _changed(chance: random.Random, text: bytes) -> bytes:
    """Return `text`, its first 4 KB, with some bytes changed, doubled or left out."""
    data = bytearray(text[:4_096])
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(3):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                data[at:at] = data[at : at + chance.randrange(32)]
            case _:
                del data[at : at + chance.randrange(8)]
    return bytes(data)
