"""Writes contracts/schema/ from the models: the only way in which those files change."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from contracts.schemas import main  # noqa: E402 - the project is not installed where this may run

if __name__ == "__main__":
    sys.exit(main([str(PROJECT / "contracts" / "schema")]))
