"""Programs that some tests need and a desk may lack. Must never turn a missing tool into a pass on
the machine that guards the branch: there it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from runagent._cgroup import make_leaf, remove


def is_ci() -> bool:
    """Say whether this run guards the branch (the environment says CI=true)."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def require_tool(name: str) -> str:
    """Return the path of the program `name`; without it skip at a desk and fail in CI."""
    path = shutil.which(name)
    if path is not None:
        return path
    if is_ci():
        pytest.fail(f"{name} is not installed, and this run must not skip", pytrace=False)
    pytest.skip(f"{name} is not installed here")


def require_index(fetch: Sequence[str]) -> None:
    """Run `fetch`, a command of a package index's own client; when it fails, skip at a desk (no
    network there) and fail in CI."""
    done = subprocess.run(
        fetch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode == 0:
        return
    if is_ci():
        pytest.fail(f"the package index did not answer:\n{done.stderr[-2000:]}", pytrace=False)
    pytest.skip("no package index is reached from here")


def require_cgroup() -> None:
    """Skip where this machine lets us make no version 2 cgroup. In CI as well: whether a container
    has a writable hierarchy is its platform's to say, and runs go on without one."""
    trial = make_leaf("trial", os.getpid())
    remove(trial)
    if not trial:
        pytest.skip("this platform lets us make no version 2 cgroup")


def require_root() -> None:
    """Go on as root alone; anybody else skips at a desk and fails in CI."""
    if os.geteuid() == 0:
        return
    if is_ci():
        pytest.fail("only root can do this, and this run must not skip", pytrace=False)
    pytest.skip("only root can do this")
