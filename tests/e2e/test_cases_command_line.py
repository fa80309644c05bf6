"""The command line as scripts use it: stdout is the one JSON document, and nothing that was asked
for is dropped."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dispatch.cli import VERBS
from tests.support.broker import running_broker
from tests.support.desk import Desk
from tests.support.fleet import Machine, make_repository, place_program

# An agent and a validator that write to all that they can reach.
LOUD = """
os.write(1, b'plain text, not JSON\\n{"half": ')
os.write(2, b'warning: loud\\n{"error": true}\\n')
for number in range(3, 12):
    try: os.write(number, b'leaked')
    except OSError: pass
try: open('/dev/tty', 'w').write('to the terminal')
except OSError: pass
Path('new.py').write_text('x')
print(); finish('Done.')
"""


def only_document(text: str) -> Any:
    """Return the document that `text` is: one, whole, with nothing before or behind it."""
    document, end = json.JSONDecoder().raw_decode(text)
    assert text[end:] == "\n"
    return document


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine that was set up, with a broker and one queued job."""
    place_program(tmp_path / "programs", "codex", "print('codex-cli 0.1')\n")
    make_repository(tmp_path / "src" / "app", {"README.md": "an app\n"})
    home = tmp_path / "home"
    home.mkdir()
    with running_broker(tmp_path / "broker") as broker:
        machine = Machine(
            home=home, programs=tmp_path / "programs", redis_url=broker.url, name="NORTH"
        )
        machine.succeed("init", "--host", "NORTH", "--lanes", "BUILD")
        yield machine


def job(tmp_path: Path) -> str:
    repo = str(tmp_path / "src" / "app")
    return json.dumps({"agent": "codex", "task": "Do it.", "repo": repo, "ticket": "T-1"})


# --- stdout ------------------------------------------------------------------------------------
@pytest.mark.parametrize("words", [(), ("--json",)])
@pytest.mark.parametrize("debug", ["", "1"])
def test_a_loud_agent_and_a_loud_validator_leave_stdout_to_the_result(
    desk: Desk, words: tuple[str, ...], debug: str
) -> None:
    desk.agent(LOUD)
    extra = {"FLEET_DISPATCH_DEBUG": debug, "PYTHONWARNINGS": "always", "PYTHONDEVMODE": debug}
    done = desk.run("--validate-cmd", "echo loud; echo loud >&2", *words, extra=extra)
    assert only_document(done.stdout)["status"] == "completed"
    assert "loud" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("--agent", "nobody"),
        ("--branch", "nowhere"),
        ("--tiket", "T-2"),
        ("--timeout", "soon"),
        ("--repo", "/nonexistent"),
    ],
)
def test_a_refused_run_is_still_one_document(desk: Desk, words: tuple[str, ...]) -> None:
    done = desk.run(*words)
    assert done.code == 2
    assert only_document(done.stdout)["status"] == "failed"


def test_every_verb_with_json_prints_one_document_when_it_works(
    machine: Machine, tmp_path: Path
) -> None:
    queued = machine.run(
        *("enqueue", "--kind", "run_agent", "--lane", "BUILD", "--payload-file", "-", "--json"),
        stdin=job(tmp_path),
    )
    (row,) = only_document(queued.stdout)["jobs"]
    for words in (
        ("jobs",),
        ("hosts",),
        ("keys", "list"),
        ("config", "show"),
        ("doctor",),
        ("wait", row["jobId"], "--timeout", "1"),
        ("result", row["jobId"]),
        ("init",),
    ):
        done = machine.run(*words, "--json")
        only_document(done.stdout)


def test_every_verb_with_json_prints_one_document_when_there_is_no_broker(
    machine: Machine, tmp_path: Path
) -> None:
    machine.redis_url = "redis://:hush@127.0.0.1:1/0"
    enqueue = ("enqueue", "--kind", "run_agent", "--lane", "BUILD", "--payload-file", "-")
    for words in (enqueue, ("jobs",), ("hosts",), ("doctor",)):
        done = machine.run(*words, "--json", stdin=job(tmp_path))
        only_document(done.stdout)
        assert "hush" not in done.stdout + done.stderr
        assert "127.0.0.1:1" in done.stdout + done.stderr
    assert machine.run(*enqueue, "--json", stdin=job(tmp_path)).returncode == 2


# --- what was asked for ------------------------------------------------------------------------
@pytest.mark.parametrize(("given", "used"), [((), 1200), (("90",), 90), (("5",), 60)])
def test_the_time_limit_that_was_given_is_the_one_that_holds(
    desk: Desk, given: tuple[str, ...], used: int
) -> None:
    # agy is told its limit, so its arguments show which one the host counts with.
    desk.agent("Path('argv').write_text(' '.join(sys.argv))", name="agy")
    done = desk.run(*(("--timeout", *given) if given else ()), agent="gemini")
    assert f"--print-timeout {used}s" in (desk.tree(done) / "argv").read_text()


# --- what cannot be resolved -------------------------------------------------------------------
@pytest.mark.parametrize("verb", [*VERBS, "no-such-verb"])
def test_an_option_that_a_verb_does_not_know_is_an_error(tmp_path: Path, verb: str) -> None:
    machine = Machine(tmp_path, tmp_path, "redis://127.0.0.1:1/0", "NORTH")
    for words in ((verb, "--no-such-option"), (verb, "--no-such-option=1", "--json")):
        done = machine.run(*words, seconds=30)
        assert done.returncode == 2, words
        assert verb in done.stderr
    assert not (tmp_path / "fleet").exists(), "nothing was made on the way"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--lane", "BUILD", "--targets", "SOUTH"), "SOUTH"),
        (("--lane", "BUILD", "--targets", "NORTH,"), "targets"),
        (("--lane", "NOBODYS"), "NOBODYS"),
        (("--lane", "BUILD", "--kind", "run_agents"), "kind"),
        (("--lane", "BUILD", "--wait", "long"), "long"),
        ((), "--lane"),
    ],
)
def test_an_address_or_a_kind_that_does_not_resolve_queues_nothing(
    machine: Machine, tmp_path: Path, words: tuple[str, ...], named: str
) -> None:
    given = words if "--kind" in words else (*words, "--kind", "run_agent")
    done = machine.run("enqueue", *given, "--payload-file", "-", stdin=job(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr
    assert machine.read_json("jobs")["jobs"] == []


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ("[validation]\ntimeot_s = 5\n", "timeot_s"),
        ("[valdation]\ntimeout_s = 5\n", "valdation"),
        ('[validation]\ndetectors = ["pytst"]\n', "validation.detectors.0"),
        ('[agents.cdex]\ncommand = ["codex"]\n', "cdex"),
    ],
)
def test_a_setting_that_does_not_resolve_stops_the_run(
    desk: Desk, section: str, named: str
) -> None:
    config = desk.machine.home / "fleet" / "config.toml"
    config.parent.mkdir(mode=0o700)
    config.write_text(section)
    config.chmod(0o600)
    done = desk.run()
    assert done.code == 2
    assert named in only_document(done.stdout)["summary"]


@pytest.mark.parametrize("module", ["worker.commands.run_agent", "worker.runs.local_run"])
def test_an_interrupt_while_the_verb_is_loading_still_prints_a_result(
    desk: Desk, module: str
) -> None:
    """The interpreter is told to interrupt itself at the import of the verb's own module, and of
    what the verb loads for its work."""
    program = (
        "import os, signal, sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *rest):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "from dispatch.cli import main\n"
        "sys.meta_path.insert(0, Stop())\n"
        "main(sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *desk.words()[1:]],
        env=desk.machine.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    result = only_document(done.stdout)
    assert (done.returncode, result["status"]) == (4, "failed")
    assert "interrupted" in {risk["code"] for risk in result["risks"]}
    assert "Traceback" not in done.stderr
