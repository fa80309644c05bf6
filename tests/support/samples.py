"""Whole and valid values of the contract, to be changed by tests in one place each."""

from __future__ import annotations

from typing import Any

from contracts.run_agent import RunAgentResult

# The contract's own example of a result, with one of the five statuses.
SEED_RESULT = r"""
{
  "status": "completed",
  "summary": "best human-readable account of what the agent did",
  "changed_files": ["src/a.cs", "docs/x.md"],
  "tests_attempted": ["dotnet build => exit 0", "dotnet test => exit 0"],
  "known_risks": ["first attempt exited nonzero; result reflects the retry in the same worktree"],
  "needs_human_review": true,
  "agent": "codex",
  "durationSeconds": 312.4,
  "worktreePath": "C:\\src\\myrepo-agents\\a1b2c3d4"
}
"""

# The contract's own example of a request.
SEED_REQUEST: dict[str, Any] = {
    "agent": "codex",
    "task": "full task brief (prompt) for the agent",
    "repo": "C:\\absolute\\path\\to\\git\\repo",
    "ticket": "FLT-2",
    "branch": "master",
    "mode": "build",
    "timeoutSec": 1200,
    "validateCommand": "npm test",
}

NINE_KEYS = (
    "status",
    "summary",
    "changed_files",
    "tests_attempted",
    "known_risks",
    "needs_human_review",
    "agent",
    "durationSeconds",
    "worktreePath",
)


def payload(**changes: Any) -> dict[str, Any]:
    """Return a small valid payload with `changes`."""
    base = {"agent": "codex", "task": "Fix it.", "repo": "/srv/repo", "ticket": "FLT-2"}
    return {**base, **changes}


def result(**changes: Any) -> RunAgentResult:
    """Return a small valid result with `changes`."""
    base: dict[str, Any] = {
        "status": "completed",
        "summary": "done",
        "changed_files": (),
        "tests_attempted": (),
        "known_risks": (),
        "needs_human_review": False,
        "agent": "codex",
        "durationSeconds": 1.0,
        "worktreePath": "/srv/repo-agents/0123456789abcdef0123",
    }
    return RunAgentResult(**{**base, **changes})
