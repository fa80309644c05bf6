"""Fixtures of the runagent tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import hunted


@pytest.fixture
def token() -> Iterator[str]:
    """A text that only this test's processes carry; whatever still has it at the end is ended."""
    with hunted() as text:
        yield text
