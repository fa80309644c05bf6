"""`make demo`, played for real; and the proof that it can fail."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from contracts.run_agent import RunAgentResult
from tests.support.source_tree import PROJECT

DEMO = PROJECT / "ops" / "demo" / "demo.py"
_LIMIT_S = 60


def _play(
    tmp: Path, *arguments: str, path: str | None = None, demo: Path = DEMO
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(tmp)}
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        [sys.executable, demo, *arguments],
        env=environment,
        cwd=tmp,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S * 2,
    )


def test_the_demo_ends_well_prints_the_result_alone_and_cleans_up(tmp_path: Path) -> None:
    began = time.monotonic()
    played = _play(tmp_path)
    assert played.returncode == 0, played.stderr
    result = RunAgentResult.model_validate_json(played.stdout)
    assert (result.status, result.needs_human_review) == ("completed", False)
    assert json.loads(played.stdout)["changed_files"] == ["calc.py"]
    assert "no model is called" in played.stderr
    assert "its signature holds" in played.stderr
    assert "the agent's ancestor is the listener" in played.stderr
    assert time.monotonic() - began < _LIMIT_S
    assert not list(tmp_path.iterdir()), "its temporary home is gone"


def test_the_demo_plays_from_a_folder_that_a_sandbox_covers(tmp_path: Path) -> None:
    """A clone below /tmp, where a box has files of its own."""
    stage, demo = tmp_path / "stage", tmp_path / "clone"
    stage.mkdir()
    shutil.copytree(DEMO.parent, demo)
    played = _play(stage, demo=demo / DEMO.name)
    assert played.returncode == 0, played.stderr


def test_a_demo_that_is_stopped_half_way_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, DEMO],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + _LIMIT_S
    while not list(tmp_path.glob("*/listen.log")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.terminate()
    said, _ = process.communicate(timeout=_LIMIT_S)
    assert (process.returncode, said) == (143, b"")
    assert not list(tmp_path.iterdir())


def test_the_demo_fails_in_bounded_time_when_nobody_listens(tmp_path: Path) -> None:
    began = time.monotonic()
    played = _play(tmp_path, "--without-listener")
    assert played.returncode == 1
    assert played.stdout == ""
    assert "enqueue exited 3" in played.stderr
    assert time.monotonic() - began < _LIMIT_S
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("agent", ["claude", "grok"])
def test_the_demo_says_which_real_agent_is_missing(tmp_path: Path, agent: str) -> None:
    played = _play(tmp_path, "--agent", agent, path="/usr/bin:/bin")
    assert played.returncode == 1
    assert f"{agent} is not on PATH" in played.stderr
