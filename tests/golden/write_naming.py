"""Writes tests/golden/naming.json: every shared name, called with sample arguments."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from contracts import naming  # noqa: E402 - the project is not installed where this may run

GOLDEN = Path(__file__).with_name("naming.json")
SAMPLES = {
    "lane": "MULTI-MODEL",
    "host": "GAMINGPC",
    "queue": "fd.lane.MULTI-MODEL",
    "job_id": "0123456789abcdef0123",
    "ticket": "FLT-2",
    "repo": "/srv/repo",
    "pool": "codex/default",
}


def read_names() -> dict[str, str]:
    """Return each constant, and each function's name for the samples."""
    names = {key: value for key, value in vars(naming).items() if key.isupper()}
    for key, function in inspect.getmembers(naming, inspect.isfunction):
        arguments = [SAMPLES[parameter] for parameter in inspect.signature(function).parameters]
        names[key] = function(*arguments)
    return names


def golden_text() -> str:
    """Return what naming.json must hold."""
    return json.dumps(read_names(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(golden_text(), encoding="utf-8", newline="\n")
