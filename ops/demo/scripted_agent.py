"""Stands in for codex in `make demo`: reads a brief on stdin, mends one line, says so in codex's
event format. It calls no model, and mends the demo's own repository and nothing else."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

WRONG = "return a - b"
RIGHT = "return a + b"
AT_WORK_S = 0.5  # long enough to be seen at work from outside, looked for every 10 ms


def say(**event: object) -> None:
    """Print one event as codex does: one JSON object a line."""
    print(json.dumps(event), flush=True)


def main() -> int:
    """Mend `calc.py` in the folder that -C names; return an exit code as codex would."""
    worktree = Path(sys.argv[sys.argv.index("-C") + 1])
    brief = sys.stdin.read()
    say(type="thread.started", thread_id="demo-0001")
    say(type="turn.started")
    if "calc.add" not in brief:
        say(type="turn.failed", error={"message": "the brief did not arrive"})
        return 1
    time.sleep(AT_WORK_S)
    target = worktree / "calc.py"
    target.write_text(target.read_text().replace(WRONG, RIGHT))
    change = {"id": "item_0", "type": "file_change", "status": "completed"}
    say(
        type="item.completed", item={**change, "changes": [{"path": str(target), "kind": "update"}]}
    )
    text = "calc.add subtracted; it adds now."
    say(type="item.completed", item={"id": "item_1", "type": "agent_message", "text": text})
    usage = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0}
    say(type="turn.completed", usage=usage)
    return 0


if __name__ == "__main__":
    sys.exit(main())
