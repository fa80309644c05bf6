"""A job handed to a host's own door, with no broker on either side: sent, taken once, fetched."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from contracts.clock import SystemClock
from contracts.delivery import DeliveryCode
from tests.support.broker import Broker
from tests.support.certificates import make_certificate
from tests.support.fleet import make_repository, wait_until
from tests.support.hosts import LANE, Host, make_host, make_sender
from tests.support.http_door import Door, open_door
from tests.support.sender_desk import SenderDesk
from worker.journal.journal import Journal

NO_BROKER = "redis://127.0.0.1:1/0"


@contextmanager
def host_with_a_door(folder: Path, *options: str) -> Iterator[Door]:
    """Yield the door of a listening host that knows no broker."""
    repo = make_repository(folder / "repo", {"readme.txt": "hello\n"})
    nobody = Broker(folder / "never-started")
    host = make_host(folder, nobody, make_sender(folder / "sender"), repo)
    host.options = ("--no-queue", *options)
    opened = open_door(host)
    host.start()
    try:
        yield opened
    finally:
        host.release()
        code = host.stop()
    assert code == 0


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """One host for all tests that do not kill theirs."""
    with host_with_a_door(tmp_path_factory.mktemp("fleet")) as opened:
        yield opened


@pytest.fixture
def desk(door: Door) -> SenderDesk:
    desk = SenderDesk.of(door.host, NO_BROKER)
    config = Path(desk.environment["FLEET_DISPATCH_HOME"]) / "config.toml"
    config.write_text(f'[hosts.{door.host.name}]\nurl = "{door.url}"\n')
    config.chmod(0o600)
    return desk


def words(desk: SenderDesk, host: Host, *more: str, target: str = "", task: str = "") -> list[str]:
    payload = host.payload(**({"task": task} if task else {}))
    file = desk.home / "job.json"
    file.write_text(json.dumps(payload))
    return [
        "send",
        "--target",
        target or host.name,
        "--lane",
        LANE,
        "--payload-file",
        str(file),
        *more,
    ]


def send(desk: SenderDesk, host: Host, *more: str, **given: str) -> Any:
    (job,) = desk.read_json(*words(desk, host, *more, **given))["jobs"]
    return job


def test_a_job_is_sent_and_its_result_fetched_without_any_broker(
    door: Door, desk: SenderDesk
) -> None:
    job = send(desk, door.host, "--wait", "120")
    assert (job["pushed"], job["status"]) == ("accepted", "completed")
    assert job["host"] == door.host.name
    assert desk.read_json("result", job["jobId"])["status"] == "completed"
    assert desk.row(job["jobId"])["state"] == "completed"
    assert desk.read_json("wait", job["jobId"])["exitCode"] == 0
    events = desk.run("events", job["jobId"])
    assert events.returncode == 2
    assert f"on its host: fleet-dispatch events {job['jobId']} --local" in events.stderr


def test_one_key_sends_one_job_however_often_it_is_said(door: Door, desk: SenderDesk) -> None:
    starts = door.host.starts
    first = send(desk, door.host, "--idempotency-key", "nightly-7")
    again = send(desk, door.host, "--idempotency-key", "nightly-7", "--wait", "120")
    assert again["jobId"] == first["jobId"]
    assert (first["pushed"], again["pushed"]) == ("accepted", "already_there")
    assert again["status"] == "completed"
    assert door.host.starts == starts + 1


def test_an_address_that_has_no_name_here_gets_a_job_for_the_lane(
    door: Door, desk: SenderDesk
) -> None:
    (Path(desk.environment["FLEET_DISPATCH_HOME"]) / "config.toml").unlink()
    job = send(desk, door.host, "--wait", "120", target=door.url)
    assert (job["aud"], job["status"], job["host"]) == (f"lane:{LANE}", "completed", door.host.name)


def test_what_was_accepted_and_what_was_not_fetched_survive_a_crash(tmp_path: Path) -> None:
    """Accepted is on disk: the answer is given after the claim, so a crash then loses nothing. A
    result waits for its sender and is the same bytes ever after."""
    with host_with_a_door(tmp_path) as door:
        host = door.host
        done = host.job()
        assert door.code(door.post_until_taken(host.sender.sign(done))) is DeliveryCode.ACCEPTED
        first = door.result_bytes(done["jti"])
        open_one = host.job(payload=host.payload(task="wait until released"))
        envelope = host.sender.sign(open_one)
        assert door.code(door.post_until_taken(envelope)) is DeliveryCode.ACCEPTED
        host.kill()
        host.start()
        assert door.result_bytes(done["jti"]) == first
        assert "published" in host.journal_history(done["jti"]), "taken, and said so"
        assert [risk.code for risk in door.result(open_one["jti"]).risks] == ["listener_lost"]
        assert door.code(door.post(envelope)) is DeliveryCode.DUPLICATE
        assert host.journal_history(open_one["jti"]).count("claimed") == 1


def test_no_free_slot_takes_nothing_and_a_known_job_needs_none(door: Door) -> None:
    host = door.host
    claims = host.job(payload=host.payload(task="wait until released"))
    first = host.sender.sign(claims)
    assert door.code(door.post_until_taken(first)) is DeliveryCode.ACCEPTED
    other = host.job()
    refused = door.post(host.sender.sign(other))
    assert (refused.status, refused.headers["retry-after"]) == (503, "2")
    assert door.code(door.post(first)) is DeliveryCode.DUPLICATE
    journal = Journal(host.journal_file, SystemClock())
    assert journal.find(other["jti"]) is None, "what was not accepted is nowhere"
    journal.close()
    host.release()
    assert door.result(claims["jti"]).status == "completed"
    assert door.code(door.post_until_taken(host.sender.sign(other))) is DeliveryCode.ACCEPTED
    assert door.result(other["jti"]).status == "completed"
    (host.home / "released").unlink()


def test_a_job_at_a_door_is_taken_back_by_its_sender_there(door: Door, desk: SenderDesk) -> None:
    starts = door.host.starts
    job_id = send(desk, door.host, task="wait until released")["jobId"]
    wait_until(lambda: door.host.starts > starts, "the agent runs", 90)
    desk.succeed("cancel", job_id)
    result = door.result(job_id)
    assert result.status == "failed"
    assert "cancelled" in [risk.code for risk in result.risks]


def test_nobody_but_the_sender_of_a_job_reads_of_it_and_every_question_is_answered_once(
    door: Door,
) -> None:
    job_id = door.host.job()["jti"]
    unknown = door.ask(job_id)
    assert (unknown.status, door.code(unknown)) == (404, DeliveryCode.UNKNOWN)
    asked = door.sign_ask(job_id)
    assert door.send_ask(asked).status == 404
    assert door.send_ask(asked).status == 403, "the same question again"


def test_nobody_at_the_door_and_a_stranger_there_are_told_with_a_remedy(
    door: Door, desk: SenderDesk
) -> None:
    nobody = desk.run(*words(desk, door.host, target="http://127.0.0.1:9"))
    assert nobody.returncode == 2
    assert "nobody listens at http://127.0.0.1:9 (start the host with" in nobody.stderr

    class Stranger(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(202)
            self.end_headers()
            self.wfile.write(b'{"ok":true}')

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Stranger)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        lied = desk.run(*words(desk, door.host, target=url))
    finally:
        server.shutdown()
        server.server_close()
    assert lied.returncode == 2
    assert "is not signed by a host that we granted a key" in lied.stderr


def test_a_name_without_an_address_and_one_that_is_none_are_refused_with_words(
    door: Door, desk: SenderDesk
) -> None:
    for target, said in (("NOWHERE", "no address is known for host NOWHERE"), ("ftp://x", "door")):
        refused = desk.run(*words(desk, door.host, target=target))
        assert refused.returncode == 2
        assert said in refused.stderr


def test_a_door_with_tls_is_used_by_whoever_trusts_its_certificate_and_by_nobody_else(
    tmp_path: Path,
) -> None:
    cert, key = make_certificate(tmp_path / "tls", "127.0.0.1")
    other, _ = make_certificate(tmp_path / "other", "127.0.0.1")
    tls = ("--http-tls-cert", str(cert), "--http-tls-key", str(key))
    with host_with_a_door(tmp_path, *tls) as door:
        host, url = door.host, door.url.replace("http:", "https:")
        desk = SenderDesk.of(host, NO_BROKER)
        wrong = desk.run(*words(desk, host, "--cacert", str(other), target=url))
        assert wrong.returncode == 2
        assert f"the certificate of {url} is not one that we trust" in wrong.stderr
        plain = desk.run(*words(desk, host, target=url.replace("https:", "http:")))
        assert plain.returncode == 3, "a door that breaks off may have had it"
        assert host.starts == 0
        job = send(desk, host, "--cacert", str(cert), "--wait", "120", target=url)
        assert job["status"] == "completed"
        assert host.starts == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--http", "0.0.0.0:0"), "is reachable from other machines and has no TLS"),
        (("--http", "nonsense"), "is not HOST:PORT"),
        (("--http", "127.0.0.1:0", "--http-tls-cert", "/none"), "http.tls_key: is missing"),
        (("--no-queue",), "leaves no way in"),
    ],
)
def test_a_door_that_was_not_thought_about_is_refused_at_the_start(
    options: tuple[str, ...], said: str, desk: SenderDesk
) -> None:
    refused = desk.run("listen", "--lane", LANE, *options)
    assert refused.returncode == 2
    assert said in refused.stderr
