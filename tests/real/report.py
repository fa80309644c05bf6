"""What a run of the real CLIs shows: one table for people, one document for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.real.cases import Case, Scenario
from tests.real.checks import reason_of
from tests.real.settings import AGENTS
from tests.real.stage import Outcome


@dataclass(frozen=True)
class Row:
    """One case, what came of it, and what of that is not as it was to be."""

    scenario: Scenario
    case: Case
    outcome: Outcome
    differences: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the row as the table shows it."""
        result = self.outcome.result
        if result is None:
            status = "refused" if self.outcome.refusal else "nothing"
            shown = ("-", "-")
        else:
            status = result["status"]
            shown = (reason_of(result) or "-", "yes" if result["needs_human_review"] else "no")
        verdict = "ok" if not self.differences else "WRONG"
        seconds = f"{self.outcome.seconds:.1f}"
        name = self.scenario.name
        note = self.case.cannot or self.case.note
        return (name, self.case.agent, status, *shown, seconds, verdict, note)

    @property
    def told(self) -> str:
        """Return what the result said, short, for whoever looks for the reason."""
        result = self.outcome.result
        if result is None:
            return self.outcome.refusal[:400]
        risks = "; ".join(f"{risk['code']}: {risk['message'][:200]}" for risk in result["risks"])
        return f"job {result.get('jobId')}: {result['summary'][:300]!r}; risks: {risks}"


HEADS = ("scenario", "CLI", "status", "reason", "review", "seconds", "", "note")


def table(rows: list[Row]) -> str:
    """Return the rows in Markdown."""
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    lines += [f"| {' | '.join(row.cells)} |" for row in rows]
    return "\n".join(lines)


def count(rows: list[Row]) -> int:
    """Return how many CLIs have every one of their rows as it was to be."""
    told = {row.case.agent for row in rows}
    wrong = {row.case.agent for row in rows if row.differences}
    return len(told - wrong)


def document(rows: list[Row], versions: dict[str, str], facts: dict[str, Any]) -> str:
    """Return everything as JSON."""
    listed = [
        {
            "scenario": row.scenario.name,
            "agent": row.case.agent,
            "seconds": round(row.outcome.seconds, 1),
            "differences": row.differences,
            "cannot": row.case.cannot,
            "refusal": row.outcome.refusal,
            "result": row.outcome.result,
        }
        for row in rows
    ]
    told = {"clis": count(rows), "of": len(AGENTS), "versions": versions, **facts}
    return json.dumps({**told, "rows": listed}, indent=2)
