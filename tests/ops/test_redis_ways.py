"""The ways to a broker: TLS with certificates on both sides, a Unix socket, and Sentinels. A sender
and a listener take each of them, and a password is seen nowhere."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from dispatch.private_files import write_private_file
from tests.support.fleet import PROGRAM, wait_until
from tests.support.hosts import Host, listening_host
from tests.support.redis_server import (
    make_certificates,
    password_of,
    running_redis,
    watched_pair,
)
from tests.support.sender_desk import SenderDesk


def run_one_job(desk: SenderDesk, host: Host) -> None:
    job_id = desk.enqueue(host)["jobId"]
    waited = desk.run("wait", job_id, "--timeout", "120", "--json", seconds=180)
    assert waited.returncode == 0, waited.stderr + waited.stdout + host.log


@contextmanager
def arguments_of_our_processes() -> Iterator[set[str]]:
    """Yield what grows to hold every argument of every process below this one."""
    seen: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                try:
                    seen.update(process.cmdline())
                except psutil.Error:
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join(20)


def test_tls_with_certificates_on_both_sides_and_a_password_that_nobody_sees(
    tmp_path: Path,
) -> None:
    made = make_certificates(tmp_path / "certificates")
    server_pair, client_pair = made.pair("server"), made.pair("client")
    tls = [
        *(f"tls-cert-file {server_pair[0]}", f"tls-key-file {server_pair[1]}"),
        *(f"tls-ca-cert-file {made.ca}", "tls-auth-clients yes"),
    ]
    with running_redis(tmp_path / "redis", extra=tls, tls=True) as server:
        options = (
            f"ssl_ca_certs={made.ca}&ssl_certfile={client_pair[0]}&ssl_keyfile={client_pair[1]}"
        )
        plain = f"rediss://{{}}@localhost:{server.port}/0?{options}"
        # The listener has its password in a file, the sender in the environment.
        with arguments_of_our_processes() as arguments:
            with listening_host(
                tmp_path / "fleet",
                server,
                extra={"FLEET_DISPATCH_REDIS_URL": plain.format("listener")},
                config=_password_file(tmp_path, "listener"),
            ) as host:
                url = plain.format(f"sender:{password_of('sender')}")
                desk = SenderDesk.of(host, url)
                run_one_job(desk, host)
                run_one_job(SenderDesk.of(host, server.url_of("sender")), host)  # its socket
                said = _everything_said(desk, host, url, options)
        assert len(arguments) > 10
        for role in ("sender", "listener"):
            for text in (*arguments, *said):
                assert password_of(role) not in text, text[-2000:]


def _password_file(folder: Path, role: str) -> str:
    path = folder / f"{role}.password"
    write_private_file(path, password_of(role).encode() + b"\n", replace=False)
    return f'[fleet]\npassword_file = "{path}"\n'


def _everything_said(desk: SenderDesk, host: Host, url: str, options: str) -> list[str]:
    """Return what verbs, errors, tracebacks and logs say around a broker with a password."""
    said = [host.log]
    wrong_certificate = url.replace(options, "")
    nowhere = f"rediss://sender:{password_of('sender')}@127.0.0.1:1/0?{options}"
    malformed = url + "&no_such_option=1"
    for broken in (url, wrong_certificate, nowhere, malformed):
        extra = {**desk.extra, "FLEET_DISPATCH_DEBUG": "1"}
        other = SenderDesk(desk.home, desk.programs, broken, desk.name, extra)
        for words in (("config", "show"), ("doctor",), ("hosts",), ("jobs", "--json")):
            done = other.run(*words)
            said += [done.stdout, done.stderr]
            if broken is not url and words == ("hosts",):
                assert done.returncode != 0
    for words in (("doctor",), ("config", "show", "--json")):
        done = subprocess.run(
            [PROGRAM, *words], env=host.environment, capture_output=True, text=True, timeout=120
        )
        said += [done.stdout, done.stderr]
    return said


def test_sender_and_listener_follow_a_failover_that_sentinels_decide(tmp_path: Path) -> None:
    with watched_pair(tmp_path / "pair") as pair:
        extra = {"FLEET_DISPATCH_REDIS_URL": pair.url}
        with listening_host(tmp_path / "fleet", pair.primary, extra=extra) as host:
            desk = SenderDesk.of(host, pair.url)
            run_one_job(desk, host)
            wait_until(pair.replicates, "the replica has everything", 90)
            pair.primary.kill()
            wait_until(lambda: pair.primary_port() == pair.replica.port, "the failover", 120)
            run_one_job(desk, host)
            assert [row["state"] for row in desk.read_json("hosts")["hosts"]] == ["live"]
            with pair.replica.client() as client:
                assert client.info("replication")["role"] == "master"
            assert host.starts == 2
