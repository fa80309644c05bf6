"""Plays every recording anew and writes tests/golden/replay.json and the table of docs/agents.md.

python tests/golden/write_replay.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "agents.md"
BEGIN, END = "<!-- replay table: begin -->", "<!-- replay table: end -->"


def main() -> None:
    """Play, and write both."""
    from tests.support.broker import running_broker
    from tests.support.replay import TABLE, replay_all, table_lines

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        with running_broker(place / "broker") as broker:
            rows = replay_all(place, broker)
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    TABLE.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    table = "\n".join(table_lines(rows))
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(PROJECT))
    main()
