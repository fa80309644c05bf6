"""What one more job costs on a repository that has many worktrees already."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from contracts.clock import SystemClock
from runagent.around.refs import read_refs
from runagent.around.siblings import read_siblings
from runagent.deadline import Deadline
from runagent.evidence.evidence import EvidenceCollector
from runagent.git.shadow_git import ShadowGit
from runagent.process import system_runner
from runagent.trees.worktree import Worktree
from runagent.trees.worktree_metadata import find_admin_dir
from tests.bench.growth.growing import grown, of_sizes, spent
from tests.bench.harness import Row, Series, place
from tests.support.repositories import git, make_repository, prepare
from worker.journal.journal import Journal
from worker.trees.states import TreeState
from worker.trees.survey import TreeSurvey, TreeView

BOUND_S = 240
_OF = "worktrees"
_NEW = itertools.count()
_LISTED = 100  # trees of a `worktrees list`, at most: each is looked at with git


def rows(quick: bool) -> Iterator[Row]:
    """Yield making, finding and looking around at three sizes, and one tree of `worktrees list`."""
    sizes = (2, 10, 100) if quick else (10, 100, 1_000)
    with place() as folder:
        repos = {size: make_repository(folder / f"repo{size}") for size in sizes}
        for size, repo in repos.items():
            stand_beside(repo, size)
        state = folder / "state"

        def each(act: Callable[[Path], object]) -> dict[int, Callable[[], object]]:
            return {size: (lambda repo=repo: act(repo)) for size, repo in repos.items()}

        made = {size: prepare(repo, state) for size, repo in repos.items()}
        yield grown("worktrees: one more made", each(lambda r: prepare(r, state)), rounds=3, of=_OF)
        plain = "worktrees: plain `git worktree add`"
        yield grown(plain, each(_plain), rounds=3, of=_OF, is_ours=False)
        trees = {Path(tree.repo): tree for tree in made.values()}
        yield grown(
            "worktrees: one found", each(lambda r: _find(trees[r])), rounds=3, times=20, of=_OF
        )
        looks = each(lambda r: _look(trees[r]))
        yield grown("worktrees: the evidence of one", looks, rounds=3, of=_OF)
        around = each(lambda r: _look_around(trees[r]))
        yield grown("worktrees: one look around", around, rounds=3, of=_OF)
        yield _listing(folder, [size for size in sizes if size <= _LISTED])


def stand_beside(repo: Path, count: int) -> None:
    """Let `count` empty worktrees of ended jobs stand beside `repo`, as a run leaves them."""
    common, head = repo / ".git", git(repo, "rev-parse", "HEAD")
    for number in range(count):
        name = f"{number:020x}"
        tree, admin = repo.parent / f"{repo.name}-agents" / name, common / "worktrees" / name
        branch = common / "refs" / "heads" / "wt" / name
        for made in (tree, admin / "logs", branch):
            made.mkdir(parents=True)
        (tree / ".git").write_text(f"gitdir: {admin}\n")
        (admin / "gitdir").write_text(f"{tree}/.git\n")
        (admin / "commondir").write_text("../..\n")
        (admin / "HEAD").write_text(f"ref: refs/heads/wt/{name}/T-1\n")
        (admin / "logs" / "HEAD").write_text(f"{'0' * 40} {head} Ada <a@b> 1 +0000\tmade\n")
        (branch / "T-1").write_text(f"{head}\n")


def _plain(repo: Path) -> None:
    name = f"plain{next(_NEW)}"
    path = str(repo.parent / f"{repo.name}-{name}")
    git(repo, "worktree", "add", "--quiet", "-b", name, path)


def _find(tree: Worktree) -> None:
    for _ in range(20):
        assert find_admin_dir(tree.common_dir, tree.path)


def _look(tree: Worktree) -> None:
    collector = EvidenceCollector(tree, runner=system_runner())
    collector.start()
    collector.after_agent()
    collector.after_validation()


def _look_around(tree: Worktree) -> None:
    shadow = ShadowGit(tree.shadow_dir, tree.path, system_runner())
    read_siblings(tree, shadow, Deadline(60))
    read_refs(tree, after=False)


def _listing(folder: Path, sizes: list[int]) -> Row:
    """Show the trees of a register: what one of them costs."""
    seen: dict[int, Series] = {}
    for size in sizes:
        repo = make_repository(folder / f"listed{size}")
        state = folder / f"of{size}"
        with closing(Journal(state / "journal.sqlite3", SystemClock())) as journal:
            for _ in range(size):
                _register(journal, prepare(repo, state / "runs"))
            survey = TreeSurvey(journal, state_dir=state, runner=system_runner())
            views: list[TreeView] = []
            cost = spent(lambda survey=survey, views=views: views.extend(survey.view_all()))
            assert {view.state for view in views} == {TreeState.CLEAN}
            seen[size] = Series((cost / size,))
    return of_sizes("worktrees: one line of `worktrees list`", seen, of=_OF)


def _register(journal: Journal, tree: Worktree) -> None:
    with journal._file.writing() as database:
        database.execute(
            "INSERT INTO trees (job, path, repo, common_dir, branch, base_commit, ticket, made_at,"
            " admin_dir, identity) VALUES (?, ?, ?, ?, ?, ?, 'T-1', 1, ?, ?)",
            (
                *(tree.job_id, tree.path, tree.repo, tree.common_dir, tree.branch),
                *(tree.base_commit, tree.admin_dir, str(os.stat(tree.path).st_ino)),
            ),
        )
