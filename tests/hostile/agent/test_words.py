"""What an agent says: it acts on no terminal, and gives no secret of the host away."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.desk import Desk

KEY = "sk-ant-api03-" + "Zq7" * 20
PIN = "correct-horse-battery"
BROKER = "br0ker-passw0rd"
UNKNOWN = "sk-proj-" + "Xy9" * 15
TERMINAL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m\x9b5A\u202eback\u2066\x08\x07\u200b"
# What may stand in our own output: the progress line takes itself away with these.
_OURS = re.compile(r"\r\x1b\[2K|\r\n")
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069]")

SAYS = f"""
key, pin, unknown = os.environ["ANTHROPIC_API_KEY"], os.environ["MY_TOOL_PIN"], {UNKNOWN!r}
say({TERMINAL!r} + " working")
for secret in (key, pin, unknown):
    whole = (json.dumps({{"type": "assistant", "message": {{"role": "assistant", "content":
        [{{"type": "text", "text": "the key is " + secret}}]}}}}) + "\\n").encode()
    half = whole.index(secret.encode()) + len(secret) // 2
    for part in (whole[:half], whole[half:]):
        os.write(1, part)
        time.sleep(0.3)
os.write(2, ("err " + key[:9]).encode()); time.sleep(0.3); os.write(2, (key[9:] + "\\n").encode())
print({TERMINAL!r} + " plain " + pin + " https://ada:" + pin + "@example.org/", flush=True)
Path("a" + {TERMINAL!r}.replace("/", "") + ".txt").write_text("x")
os.mkfifo("pipe" + {TERMINAL!r} + pin)
time.sleep(1.5)
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    fleet = desk.machine.home / "fleet"
    fleet.mkdir()
    (fleet / "config.toml").write_text(
        f'[fleet]\nredis_url = "redis://:{BROKER}@127.0.0.1:1/0"\n'
        '[environment]\nallow = ["MY_TOOL_PIN"]\n[secrets]\nnames = ["MY_TOOL_PIN"]\n'
    )
    desk.machine.extra.update(
        {"ANTHROPIC_API_KEY": KEY, "MY_TOOL_PIN": PIN, "NOISE": "n0ise-n0ise"}
    )
    return desk


def run_on_a_terminal(desk: Desk) -> tuple[dict[str, object], str, str]:
    """Run the verb with a terminal as stderr; return result, stdout and what the terminal got."""
    ours, theirs = pty.openpty()
    environment = desk.machine.environment
    process = subprocess.Popen(
        desk.words("--validate-cmd", "true"),
        env=environment,
        cwd=desk.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown: list[bytes] = []

    def read() -> None:
        try:
            while data := os.read(ours, 65_536):
                shown.append(data)
        except OSError:
            return

    reader = threading.Thread(target=read)
    reader.start()
    stdout = process.communicate(timeout=300)[0].decode()
    reader.join(60)
    os.close(ours)
    return json.loads(stdout), stdout, b"".join(shown).decode("utf-8", "replace")


@pytest.mark.parametrize("ends", ["finish('it was ' + key)", "sys.exit(3)"])
def test_no_secret_and_nothing_that_acts_leaves_the_host(desk: Desk, ends: str) -> None:
    desk.agent(SAYS + ends)
    result, stdout, terminal = run_on_a_terminal(desk)
    for secret in (KEY, PIN, UNKNOWN, BROKER):
        for place in (stdout, terminal):
            words = place if secret != PIN else place.replace(f"\\u200b{PIN}", "")
            assert secret not in words
            assert secret[: len(secret) // 2 + 1] not in words
    assert "[redacted]" in stdout
    assert "[redacted]" in terminal
    assert not _ACTS.search(_OURS.sub("", terminal).replace("\n", ""))
    assert not _ACTS.search(stdout.replace("\n", ""))
    runs = desk.machine.home / "fleet" / "state" / "runs" / str(result["jobId"])
    raw = runs / "attempt-1.stdout"
    assert PIN.encode() in raw.read_bytes(), "the host keeps what was printed"
    assert raw.stat().st_mode & 0o077 == 0


def test_an_environment_is_never_dumped(desk: Desk) -> None:
    desk.agent("print(dict(os.environ)); print(os.environ, file=sys.stderr); sys.exit(3)")
    result, stdout, terminal = run_on_a_terminal(desk)
    assert result["status"] == "failed"
    for value in (KEY, PIN, BROKER, "n0ise-n0ise"):
        assert value not in stdout
        assert value not in terminal
    journal = b"".join(
        path.read_bytes() for path in (desk.machine.home / "fleet" / "state").glob("journal*")
    )
    assert KEY.encode() not in journal
    assert PIN.encode() not in journal
