"""The floors: worker -> dispatch | runagent -> validation -> contracts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.source_tree import PACKAGES, PROJECT

_RUN = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _RUN, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def _house_with(folder: Path, module: str, line: str) -> Path:
    """Build an empty house with the project's own rules and one import in it."""
    for name in PACKAGES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    shutil.copy(PROJECT / "pyproject.toml", folder)
    (folder / module).write_text(line)
    return folder


def test_no_floor_imports_upward_and_neighbours_do_not_meet() -> None:
    result = _lint(PROJECT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_rule_itself_catches_an_upward_import(tmp_path: Path) -> None:
    house = _house_with(tmp_path / "a", "contracts/x.py", "import worker\n")
    assert _lint(house).returncode != 0


def test_the_rule_itself_catches_a_neighbour(tmp_path: Path) -> None:
    house = _house_with(tmp_path / "a", "runagent/x.py", "import dispatch\n")
    assert _lint(house).returncode != 0


def test_the_rule_itself_lets_a_downward_import_pass(tmp_path: Path) -> None:
    house = _house_with(tmp_path / "a", "worker/x.py", "import contracts\n")
    result = _lint(house)
    assert result.returncode == 0, result.stdout + result.stderr
