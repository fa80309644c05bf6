"""Every recording of a real CLI, played by a program in its place through the whole product.

A recording is what a CLI printed on both streams, what it changed, and how it ended. The player
prints it, makes the changes and ends the same way: by its exit code, by the signal that ended the
CLI, or, where it was still trying again, by waiting for the host to end it and answering as the CLI
did.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contracts.run_agent import RunAgentResult
from tests.support.broker import Broker
from tests.support.fleet import place_program
from tests.support.hosts import listening_host

GOLDEN = Path(__file__).parents[1] / "golden"
RECORDINGS = GOLDEN / "recordings"
TABLE = GOLDEN / "replay.json"
PROGRAMS = {"claude": "claude", "codex": "codex", "gemini": "agy", "grok": "grok"}
# Ended by the recorder while they tried again; here the host's patience ends them.
STILL_TRYING = frozenset({"claude/401-sj", "claude/429-default-retries", "gemini/429"})

PLAYER = """
import json, os, signal, sys
if "--version" in sys.argv or "--help" in sys.argv:
    print("player 1.2.3")
    sys.exit()
asked = [word for word in sys.argv if "REPLAY " in word]
name, waits = (asked[0] if asked else sys.stdin.read()).split("REPLAY ")[1].split()[:2]
with open(os.path.join({recordings!r}, name + ".json"), encoding="utf-8") as file:
    recording = json.load(file)
def end(*_):
    sys.stdout.flush()
    code = recording["exit"]
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
        signal.pause()
    os._exit(code)
signal.signal(signal.SIGTERM, end if waits == "waits" else signal.SIG_DFL)
for path, content in recording["changes"].items():
    with open(path, "w") as file:
        file.write(content)
for stream in ("stderr", "stdout"):
    out = getattr(sys, stream).buffer
    out.write("".join(recording[stream]).encode())
    out.flush()
while waits == "waits":
    signal.pause()
end()
"""


def names() -> list[str]:
    """Return every recording as `agent/name`."""
    return sorted(
        path.relative_to(RECORDINGS).with_suffix("").as_posix()
        for path in RECORDINGS.glob("*/*.json")
    )


def replay_all(folder: Path, broker: Broker) -> list[dict[str, Any]]:
    """Play every recording as a job of its own and return a row for each."""
    config = "[host]\nretry_patience_s = 2\n[governor]\npools = false\n"
    with listening_host(folder, broker, options=("--concurrency", "4"), config=config) as host:
        for program in PROGRAMS.values():
            place_program(host.home / "bin", program, PLAYER.format(recordings=str(RECORDINGS)))
        jobs = {}
        for name in names():
            waits = "waits" if name in STILL_TRYING else "ends"
            payload = host.payload(
                agent=name.partition("/")[0],
                task=f"REPLAY {name} {waits} ",
                validateCommand="true",
            )
            jobs[name] = host.push(host.job(payload=payload))
        return [_row(name, host.result(job, seconds=900)) for name, job in jobs.items()]


def _row(name: str, result: RunAgentResult) -> dict[str, Any]:
    recording = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    return {
        "recording": name,
        "exit": recording["exit"],
        "status": result.status.value,
        "reason": "" if result.reason is None else result.reason.code,
        "review": result.needs_human_review,
        "risks": sorted({risk.code for risk in result.risks}),
        "unknown": result.unknown_events,
        "tokens": None if result.usage is None else [result.usage.input, result.usage.output],
    }


def table_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of docs/agents.md."""
    head = ["| recording | exit | status | reason | review | risks |", "|---|---|---|---|---|---|"]
    return head + [
        f"| {row['recording']} | {row['exit']} | {row['status']} | {row['reason'] or 'none'} "
        f"| {'yes' if row['review'] else 'no'} | {', '.join(row['risks']) or 'none'} |"
        for row in rows
    ]
