"""The shell scripts of the project: setting up, and the gate on a bare machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.source_tree import PROJECT
from tests.support.tools import require_tool

_TOOLS = ("sh", "cat", "cksum", "dirname", "rm")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what setup.sh reads, in a path with a space."""
    folder = tmp_path / "a checkout"
    (folder / "ops").mkdir(parents=True)
    shutil.copy(PROJECT / "ops" / "setup.sh", folder / "ops")
    shutil.copy(PROJECT / "pyproject.toml", folder)
    return folder


@pytest.fixture
def bare_path(tmp_path: Path) -> Path:
    """A PATH with the tools of a bare machine and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in _TOOLS:
        (folder / name).symlink_to(require_tool(name))
    return folder


def _set_up(checkout: Path, path: Path, want: str = "dev") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", checkout / "ops" / "setup.sh", want],
        env={"PATH": str(path), "HOME": str(checkout)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def _program(folder: Path, name: str, body: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def _make_ready(checkout: Path, want: str) -> None:
    """Leave what a finished set-up leaves, with a Python that says it is new enough."""
    (checkout / ".venv" / "bin").mkdir(parents=True)
    _program(checkout / ".venv" / "bin", "python", "exit 0")
    recipe = (
        subprocess.run(
            ["cksum"],
            input=(checkout / "pyproject.toml").read_bytes(),
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    stamp = checkout / ".venv" / "fleet-dispatch.stamp"
    stamp.write_text(f"{want}\n{recipe}\n{checkout.resolve()}\n")


def test_a_machine_without_python_is_told_what_to_install(checkout: Path, bare_path: Path) -> None:
    done = _set_up(checkout, bare_path)
    assert done.returncode == 2
    assert "Python 3.11 or newer is needed" in done.stderr
    assert done.stdout == ""


def test_a_python_that_is_too_old_is_named_with_its_version(
    checkout: Path, bare_path: Path
) -> None:
    _program(bare_path, "python3", 'case "$1" in --version) echo Python 3.10.1;; *) exit 1;; esac')
    done = _set_up(checkout, bare_path)
    assert done.returncode == 2
    assert "found: Python 3.10.1" in done.stderr


def test_a_name_that_refuses_to_run_is_passed_over(checkout: Path, bare_path: Path) -> None:
    _program(bare_path, "python3.13", "echo not this one; exit 127")
    _program(bare_path, "python3.12", 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac')
    done = _set_up(checkout, bare_path)
    assert "python3.12 cannot create virtual environments" in done.stderr
    assert "python3-venv" in done.stderr


def test_a_ready_environment_is_left_alone_without_a_word(checkout: Path, bare_path: Path) -> None:
    _make_ready(checkout, "dev")
    for want in ("dev", "demo"):
        done = _set_up(checkout, bare_path, want)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("change", ["recipe", "place", "set"])
def test_an_environment_of_another_recipe_place_or_set_is_made_again(
    checkout: Path, bare_path: Path, change: str
) -> None:
    _make_ready(checkout, "demo" if change == "set" else "dev")
    if change == "recipe":
        with (checkout / "pyproject.toml").open("a") as file:
            file.write("\n")
    if change == "place":
        checkout = checkout.rename(checkout.with_name("moved"))
    done = _set_up(checkout, bare_path)
    assert done.returncode == 2  # it wanted to begin, and there is no Python here
    assert "Python 3.11 or newer is needed" in done.stderr


@pytest.mark.parametrize("script", [".ci/run", "ops/setup.sh"])
def test_a_script_is_plain_shell_and_may_be_executed(script: str) -> None:
    path = PROJECT / script
    subprocess.run(["sh", "-n", path], check=True, timeout=10)
    assert os.access(path, os.X_OK)
    assert path.read_text().startswith("#!/bin/sh\n")
