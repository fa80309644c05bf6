"""What three looks at a tree cost, beside two `git status` of the same tree, both warm."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from runagent.evidence.evidence import EvidenceCollector
from runagent.process import system_runner
from tests.bench.harness import Row, interleave, place, run, timed
from tests.bench.whole_run import make_large_repository
from tests.support.repositories import prepare

_EDITS = 20


def rows(quick: bool) -> Iterator[Row]:
    """Yield the one row."""
    files, rounds = (1_000, 3) if quick else (10_000, 7)
    with place() as folder:
        repo = make_large_repository(folder / "repo", files)
        worktree = prepare(repo, folder / "state")
        tree = Path(worktree.path)
        edited = sorted(tree.rglob("*.txt"))[:_EDITS]
        runner = system_runner()
        state = {"round": 0}

        def ours() -> float:
            state["round"] += 1
            collector = EvidenceCollector(worktree, runner=runner)
            before = timed(collector.start)
            for file in edited:
                file.write_text(f"changed {state['round']}\n" * 60)
            return before + timed(collector.after_agent) + timed(collector.after_validation)

        def plain() -> float:
            for file in edited:
                file.write_text(f"changed {state['round']}, again\n" * 60)
            return timed(lambda: [run(("git", "status", "--porcelain"), cwd=tree) for _ in "12"])

        os.sync()
        ours()
        plain()
        a, b = interleave(ours, plain, rounds=rounds)
        yield Row(f"three looks at {files:,} files, {_EDITS} edits", "two `git status`", None, a, b)
