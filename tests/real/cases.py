"""The table of expectations, read: one Case per scenario and CLI. Pure but for the reading."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contracts.limits import ARGV_TASK_MAX_BYTES
from tests.real.settings import AGENTS
from tests.support.model.script import HEAD, TAIL

TABLE = Path(__file__).resolve().with_name("expected.toml")
_HOST = ("model", "preset", "login", "sandbox", "concurrency", "prompt", "validate")


@dataclass(frozen=True)
class Case:
    """One CLI in one scenario: what it is to come to."""

    agent: str
    status: str
    review: bool
    reason: str | None  # None: nothing is said of it
    risks: tuple[str, ...]
    files: tuple[str, ...] | None
    said: str
    committed: bool
    timeout: int
    at_most: float
    resets: bool
    cannot: str
    note: str


@dataclass(frozen=True)
class Scenario:
    """One host, and a case for each CLI."""

    name: str
    model: str
    preset: str
    login: str
    sandbox: str
    concurrency: int
    prompt: str
    validate: str
    first: bool
    cases: tuple[Case, ...]


def read_scenarios(path: Path = TABLE) -> tuple[Scenario, ...]:
    """Return what the table says, each scenario with its defaults filled in."""
    table = tomllib.loads(path.read_text())
    return tuple(_scenario(table["defaults"] | row) for row in table["scenario"])


def prompt_text(name: str) -> str:
    """Return the prompt `name`. What an echo measures stands between two marks."""
    if name == "plain":
        return "Please do what the ticket says."
    if name == "odd":
        return f"-{HEAD} --help -p \"double\" 'single' `id` $(touch pwned) ${{HOME}} %s \\n\n\n\
\tsecond line; é 漢字 🚀 \u202e {TAIL}"
    size = {
        "largest": ARGV_TASK_MAX_BYTES,
        "over": ARGV_TASK_MAX_BYTES + 1,
        "one-mib": 1024 * 1024,
        "four-mib": 4 * 1024 * 1024,
    }[name]
    if name == "one-mib":  # in characters, the two marks among them
        size = 1024 * 1024 + len((HEAD + TAIL).encode()) - 2
    line = "A brief may be long, and every word of it counts. "
    room = size - len((HEAD + TAIL).encode())
    filled = (line * (room // len(line) + 1))[:room]
    return f"{HEAD}{filled}{TAIL}"


def _scenario(row: dict[str, Any]) -> Scenario:
    shared = {name: row[name] for name in _HOST if name in row}
    return Scenario(
        name=row["name"],
        first=bool(row.get("first")),
        cases=tuple(_case(agent, row | row.get(agent, {})) for agent in AGENTS),
        **({"concurrency": len(AGENTS), "validate": ""} | shared),
    )


def _case(agent: str, row: dict[str, Any]) -> Case:
    return Case(
        agent=agent,
        status=row["status"],
        review=row["review"],
        reason=row.get("reason"),
        risks=tuple(row["risks"]),
        files=None if row.get("files") is None else tuple(row["files"]),
        said=row.get("said", ""),
        committed=row.get("committed") is True,
        timeout=row["timeout"],
        resets=row.get("resets") is True,
        at_most=row["at_most"],
        cannot=row.get("cannot", ""),
        note=row.get("note", ""),
    )
