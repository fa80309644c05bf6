"""Fixtures of the attacks by an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.boxes import BoxBench, Make


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a bench in one sandbox mode, in a folder of its own."""

    def bench(mode: str, **options: Any) -> BoxBench:
        return BoxBench(tmp_path / mode, mode, **options)

    return bench
