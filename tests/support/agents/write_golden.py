"""Writes the golden events of the sample lines: `python tests/support/agents/write_golden.py`.

The samples (`*.lines`) are written by hand from the shapes that the CLIs were seen to print; the
events beside them are what our reader makes of them, looked at once and then held.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
GOLDEN = PROJECT / "tests" / "golden" / "agents"


def samples() -> list[Path]:
    """Return the sample files."""
    return sorted(GOLDEN.glob("*/*.lines"))


def events_of(sample: Path) -> str:
    """Return the events that the agent of `sample` reads from its lines, one JSON line each."""
    from contracts.run_agent import AgentName
    from runagent.agents import AGENTS

    agent = AGENTS[AgentName(sample.parent.name)]
    events = [
        event
        for line in sample.read_text(encoding="utf-8").splitlines()
        for event in agent.read_line(line) or ()
    ]
    return "".join(
        json.dumps(event.model_dump(mode="json", exclude_defaults=True), sort_keys=True) + "\n"
        for event in events
    )


def main() -> None:
    """Write each sample's events beside it."""
    for sample in samples():
        sample.with_suffix(".events").write_text(events_of(sample), encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(PROJECT))
    main()
