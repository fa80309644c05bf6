"""What worktree and evidence cost per file of a repository."""

from __future__ import annotations

from collections.abc import Iterator

from runagent.evidence.evidence import EvidenceCollector
from runagent.process import system_runner
from tests.bench.growth.growing import of_sizes, spent
from tests.bench.harness import Row, Series, place
from tests.support.repositories import make_repository, prepare

BOUND_S = 240
_OF = "files"


def rows(quick: bool) -> Iterator[Row]:
    """Yield the worktree and the three looks, each divided by the number of files."""
    sizes = (500, 5_000) if quick else (500, 5_000, 50_000)
    trees: dict[int, Series] = {}
    looks: dict[int, Series] = {}
    for size in sizes:
        with place() as folder:
            files = {
                f"d{n // 200}/e{n // 20 % 10}/f{n}.txt": f"line {n}\n" * 60 for n in range(size)
            }
            repo = make_repository(folder / "repo", files)
            made = []
            cost = spent(lambda: made.append(prepare(repo, folder / "state", deadline_s=200)))  # noqa: B023 - called at once
            trees[size] = Series((cost / size,))
            collector = EvidenceCollector(made[0], runner=system_runner())
            cost = sum(
                map(spent, (collector.start, collector.after_agent, collector.after_validation))
            )
            looks[size] = Series((cost / size,))
    yield of_sizes("repository: its worktree, per file", trees, of=_OF)
    yield of_sizes("repository: three looks at it, per file", looks, of=_OF)
