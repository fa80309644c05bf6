"""The main job on a real library: its sdist as the repository, a real release as the patch, its own
test suite as the validation. The agent is a script that applies the patch; no model is called."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.broker import running_broker
from tests.support.fleet import Machine, commit_everything, git, place_program
from tests.support.tools import require_index

pytestmark = pytest.mark.network

# The release that mended a quadratic time of encoding (public advisory of April 2024).
BEFORE, AFTER = "3.6", "3.7"
# The first releases of Python 3.11 do not know the word.
SAFELY: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
SUITE = f"{sys.executable} -m unittest discover"

AGENT = """
import json, os, re, subprocess, sys
brief = sys.stdin.read()
patch = re.search(r"patch (\\S+)", brief).group(1)
subprocess.run(["git", "apply", patch], check=True)
if "carelessly" in brief:
    path = "idna/core.py"
    text = open(path, encoding="utf-8").read()
    open(path, "w", encoding="utf-8").write(text.replace("ok = True", "ok = False"))
say = lambda event: print(json.dumps(event), flush=True)
say({"type": "thread.started", "thread_id": "0190-library"})
say({"type": "turn.started"})
say({"type": "item.completed", "item": {"type": "agent_message", "text": "All tests pass now."}})
say({"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}})
"""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked sources of both releases, fetched by the index's own client."""
    folder = tmp_path_factory.mktemp("releases")
    for version in (BEFORE, AFTER):
        words = "-m pip download --quiet --no-deps --no-binary=:all: --dest"
        require_index((sys.executable, *words.split(), str(folder), f"idna=={version}"))
        with tarfile.open(folder / f"idna-{version}.tar.gz") as archive:
            archive.extractall(folder, **SAFELY)
    return folder


@pytest.fixture
def library(releases: Path, tmp_path: Path) -> Path:
    """The older release as a repository of its owner."""
    folder = tmp_path / "src" / "idna"
    shutil.copytree(releases / f"idna-{BEFORE}", folder)
    (folder / ".gitignore").write_text("__pycache__/\n")
    commit_everything(folder)
    return folder


@pytest.fixture
def patch(releases: Path, tmp_path: Path) -> Path:
    """The real difference between the two releases of the library's own package."""
    done = subprocess.run(
        ["git", "diff", "--no-index", "--no-prefix", f"idna-{BEFORE}/idna", f"idna-{AFTER}/idna"],
        cwd=releases,
        capture_output=True,
        text=True,
        check=False,
    )
    text = done.stdout.replace(f"idna-{BEFORE}/idna", "a/idna").replace(
        f"idna-{AFTER}/idna", "b/idna"
    )
    path = tmp_path / "programs" / "release.patch"  # a folder of PATH: the box shows it
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """One machine with a sender, a host, and the scripted agent under codex's name."""
    (tmp_path / "src").mkdir(exist_ok=True)
    with running_broker(tmp_path / "broker") as broker:
        home = tmp_path / "home"
        home.mkdir()
        programs = tmp_path / "programs"
        place_program(programs, "codex", AGENT)
        machine = Machine(
            home=home, programs=programs, redis_url=broker.url, name="BENCH", sandbox="auto"
        )
        machine.succeed(
            "init",
            "--host",
            "BENCH",
            "--lanes",
            "MULTI-MODEL",
            "--repo-root",
            str(tmp_path / "src"),
        )
        yield machine


def test_a_real_patch_passes_the_librarys_own_suite_and_needs_no_review(
    machine: Machine, library: Path, patch: Path
) -> None:
    before = git(library, "rev-parse", "HEAD") + git(library, "status", "--porcelain")
    result, code = enqueue(machine, library, f"Apply the patch {patch} with care.")
    assert code == 0, result
    assert result["status"] == "completed"
    assert result["needs_human_review"] is False, result["known_risks"]
    assert result["tests_attempted"] == [f"{SUITE} => exit 0"]
    assert result["known_risks"] == []
    assert "idna/core.py" in result["changed_files"]
    assert sorted(result["changed_files"]) == sorted(result["agent_changed_files"])
    assert result["sessionId"] == "0190-library"
    changed = git(Path(result["worktreePath"]), "status", "--porcelain", "-z")
    assert {entry[3:] for entry in changed.split("\0") if entry} == set(result["changed_files"])
    assert git(library, "rev-parse", "HEAD") + git(library, "status", "--porcelain") == before


def test_an_agent_that_claims_success_over_a_failing_suite_is_reported_as_failed(
    machine: Machine, library: Path, patch: Path
) -> None:
    result, code = enqueue(machine, library, f"Apply the patch {patch} carelessly.")
    assert code == 4, result
    assert result["status"] == "failed"
    assert result["needs_human_review"] is True
    assert result["tests_attempted"] == [f"{SUITE} => exit 1"]
    assert (
        result["summary"].strip() == "All tests pass now."
    )  # the claim is shown, and weighs nothing
    assert Path(result["worktreePath"]).is_dir()


def enqueue(machine: Machine, repo: Path, task: str) -> tuple[dict, int]:
    """Send one job through the queue to a listener, and return its result and the exit code."""
    job = machine.home / "job.json"
    job.write_text(
        json.dumps(
            {
                "agent": "codex",
                "task": task,
                "repo": str(repo),
                "ticket": "FLT-2",
                "validateCommand": SUITE,
            }
        )
    )
    with machine.listening("MULTI-MODEL"):
        sent = machine.run(
            *("enqueue", "--targets", "BENCH", "--kind", "run_agent", "--lane", "MULTI-MODEL"),
            *("--payload-file", str(job), "--wait", "120", "--json"),
        )
        document = json.loads(sent.stdout)
        job_id = document["jobs"][0]["jobId"]
        shown = machine.run("result", job_id)
    assert shown.returncode == sent.returncode, shown.stderr
    return json.loads(shown.stdout), sent.returncode
