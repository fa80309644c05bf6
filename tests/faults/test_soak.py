"""Everything at once: the soak, in the size that its 60 seconds give it (a tenth of `make soak`:
50 jobs, 10 copies, 10 kills; see tests/faults/soak.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_a_soak_of_sixty_seconds_loses_nothing_and_leaves_nothing() -> None:
    """K60, K61, K62, K66 together, with kills at moments that nobody chose."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.soak", "--seconds", "60"],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(item for item in sys.path if item)},
        capture_output=True,
        text=True,
        timeout=650,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "soak: all of it holds" in done.stdout
