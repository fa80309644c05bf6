"""Fixtures of the sender's side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from dispatch.cli import main
from tests.dispatch.desk import Desk
from tests.support.broker import Broker, broker

__all__ = ["broker"]


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def desk(tmp_path: Path, broker: Broker) -> Desk:
    """Alice's desk, with two hosts that serve lane A and one that serves B as well."""
    desk = Desk(tmp_path / "home", broker)
    desk.enrol("PC1", "A")
    desk.enrol("PC2", "A", "B")
    return desk


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a verb in this process, as the console script does; `environ` is set for it."""

    def run(*words: str, environ: dict[str, str] | None = None) -> Said:
        for name, value in (environ or {}).items():
            monkeypatch.setenv(name, value)
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(words)
        out, err = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, out, err)

    return run
