"""Python code run as a user without rights: the gate's own user may be root, whom no mode stops."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.tools import is_ci

NOBODY = 65_534
PROJECT = Path(__file__).resolve().parents[2]


@contextmanager
def open_folder() -> Iterator[Path]:
    """Give a temporary folder that a user without rights owns and can reach."""
    folder = Path(tempfile.mkdtemp(prefix="fd-test-"))
    try:
        folder.chmod(0o755)
        give_away(folder)
        yield folder
    finally:
        _open_up(folder)
        shutil.rmtree(folder)


def give_away(path: Path, uid: int = NOBODY) -> None:
    """Make `path` and all below it belong to the user without rights, if we may."""
    if os.geteuid() == 0:
        os.chown(path, uid, uid, follow_symlinks=False)
        for inner in path.rglob("*"):
            os.chown(inner, uid, uid, follow_symlinks=False)


def run_unprivileged(code: str, *arguments: str, home: Path) -> str:
    """Run Python `code` without rights and return what it printed; it must end with 0."""
    done = _start(_interpreter(), code, arguments, home)
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def _interpreter() -> str:
    """Return an interpreter that a user without rights may start. A virtual environment's own may
    lie behind a folder of root; the system's, of the same version, reads the same packages."""
    for candidate in (sys.executable, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if candidate is not None and _can_import(candidate):
            return candidate
    if is_ci():
        pytest.fail("no interpreter can be started by a user without rights", pytrace=False)
    pytest.skip("no interpreter here can be started by a user without rights")


def _can_import(interpreter: str) -> bool:
    try:
        return _start(interpreter, "import git, pydantic, contracts", (), Path("/")).returncode == 0
    except OSError:
        return False


def _start(
    interpreter: str, code: str, arguments: tuple[str, ...], home: Path
) -> subprocess.CompletedProcess[str]:
    packages = [path for path in sys.path if path.endswith("site-packages")]
    argv = [interpreter, "-c", code, *arguments]
    environment = {
        "PYTHONPATH": os.pathsep.join([str(PROJECT), *packages]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    if os.geteuid() != 0:
        return subprocess.run(
            argv, env=environment, cwd="/", capture_output=True, text=True, timeout=120, check=False
        )
    return subprocess.run(
        argv,
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    )


def _open_up(folder: Path) -> None:
    for place, folders, _ in os.walk(folder):
        for name in folders:
            inner = Path(place, name)
            if not inner.is_symlink():
                inner.chmod(0o755)
