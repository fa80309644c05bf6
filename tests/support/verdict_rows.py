"""The table of docs/verdict.md: what plain git said of each trick, and what the host said."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from contracts.run_agent import CommandState, Validation, ValidationCommand, ValidationSource
from runagent.evidence.evidence import EvidenceCollector
from runagent.evidence.weighing import Evidence
from runagent.process import system_runner
from tests.support.repositories import prepare
from tests.support.tricks import (
    Trick,
    has_fired,
    hush,
    make_canary,
    make_tricked_repository,
    plain_status,
    play,
)
from validation.verdict import AgentChange, AgentEnd, AgentRun, Judgement, judge

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verdict.md"
_BEGIN = "<!-- written by `make verdict-table` -->\n"
_END = "<!-- end -->\n"
_HEAD = "| the agent | plain `git status` | the host |\n|---|---|---|\n"
_PASSED = Validation(
    ran=True,
    source=ValidationSource.OVERRIDE,
    commands=(ValidationCommand(command="true", exit=0, state=CommandState.PASSED),),
)


@dataclass(frozen=True, kw_only=True)
class Played:
    """What became of one trick: what the host saw and judged, and the control."""

    evidence: Evidence
    judgement: Judgement
    host_fired: bool
    plain: str
    plain_fired: bool


def play_for_real(trick: Trick, folder: Path) -> Played:
    """Play `trick` in a fresh worktree below `folder`, look at it as a run does whose agent exited
    0 and whose validation passed, and then as a person does with plain git."""
    repo = make_tricked_repository(folder / "repo")
    outside = folder / "outside"
    outside.mkdir()
    canary = make_canary(folder / "canary")
    worktree = prepare(repo, folder / "state")
    tree = Path(worktree.path)
    collector = EvidenceCollector(worktree, runner=system_runner())
    collector.start()
    play(trick, tree, repo=repo, canary=canary, outside=outside)
    hush(canary)
    collector.after_agent()
    evidence = collector.after_validation()
    host_fired = has_fired(canary)
    hush(canary)
    plain = plain_status(tree, patience_s=10.0 if trick.hangs else 100.0)
    played = Played(
        evidence=evidence,
        judgement=_judged(evidence),
        host_fired=host_fired,
        plain=plain,
        plain_fired=has_fired(canary),
    )
    _clear(tree, outside)
    return played


def row(trick: Trick, played: Played) -> str:
    """Return the trick's line of the table."""
    plain = "runs the agent's program: " if played.plain_fired else ""
    status = ", ".join(f"`{line}`" for line in played.plain.splitlines())
    files = ", ".join(f"`{_shown(path)}`" for path in played.evidence.agent_changed) or "no file"
    codes = ", ".join(dict.fromkeys(f"`{risk.code}`" for risk in played.judgement.risks))
    review = "review" if played.judgement.needs_human_review else "clean"
    said = f"{files}; {codes + '; ' if codes else ''}{review}"
    return f"| {trick.does} | {plain}{_cell(status)} | {_cell(said)} |"


def rows_of_page() -> list[str]:
    """Return the lines of the table as the page has them."""
    table = PAGE.read_text(encoding="utf-8").partition(_BEGIN)[2].partition(_END)[0]
    return table.removeprefix("\n" + _HEAD).rstrip("\n").splitlines()


def write_page(rows: Iterable[str]) -> None:
    """Put the table into the page."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    tail = rest.partition(_END)[2]
    table = "\n" + _HEAD + "\n".join(rows) + "\n\n"
    PAGE.write_text(head + _BEGIN + table + _END + tail, encoding="utf-8", newline="\n")


def _judged(evidence: Evidence) -> Judgement:
    change = AgentChange(
        made=bool(evidence.agent_changed),
        survives=evidence.agent_change_survives,
        ignored_only=evidence.ignored_only,
    )
    return judge(
        AgentRun(end=AgentEnd.EXITED_OK, exit_code=0), _PASSED, change, list(evidence.risks)
    )


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace").replace("\n", "\\n")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _clear(tree: Path, outside: Path) -> None:
    """Take away a link that stands in the worktree's place, and what takes room."""
    if tree.is_symlink():
        tree.unlink()
    shutil.rmtree(outside, ignore_errors=True)
