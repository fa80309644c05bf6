"""Writes the table of docs/verdict.md by playing every trick: the only way in which it changes."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT))

from tests.support.tricks import TRICKS  # noqa: E402 - the project's own folder comes first
from tests.support.verdict_rows import play_for_real, row, write_page  # noqa: E402 - as above


def main() -> None:
    """Play every trick in a folder of its own, with no settings of the person's own."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="fd-table-") as place:
        os.environ["HOME"] = place
        for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
            del os.environ[name]
        for trick in TRICKS:
            rows.append(row(trick, play_for_real(trick, Path(place) / trick.name)))
            print(rows[-1], flush=True)
    write_page(rows)


if __name__ == "__main__":
    main()
