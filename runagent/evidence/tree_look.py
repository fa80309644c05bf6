"""What a worktree holds that is nowhere else: uncommitted work, commits, and whether it has landed.

An agent was there, so git looks through a directory of the host's own, made for this one look.
What cannot be looked at is a problem of the look, and a look with a problem proves nothing safe.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from contracts.errors import FleetError
from runagent.deadline import Deadline
from runagent.evidence.repository_answers import RepositoryAnswers
from runagent.evidence.snapshot import Snapshot, take_snapshot
from runagent.evidence.submodule_look import look_into_submodules
from runagent.git.head import Head
from runagent.git.shadow_git import ShadowGit, create_shadow
from runagent.process import ProcessRunner
from runagent.trees.tree_aside import TreePlace, heads_of
from runagent.trees.worktree_files import keeps_file_mode

LOOK_TIMEOUT_S: Final = 120.0  # 100,000 files are hashed in well under a minute
_COMMITS_MAX: Final = 10_000
# Where work lands is a branch that moved lately; more are not compared.
_LANDINGS_MAX: Final = 50
_GITLINK: Final = b"160000"
_PLAIN_SUBMODULE: Final = frozenset({"filled", "empty"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLook:
    """What was found. Paths are git's own bytes."""

    head: Head
    uncommitted: tuple[bytes, ...] = ()  # against HEAD, untracked files included
    changed: tuple[bytes, ...] = ()  # against the base commit, committed or not
    unpushed: int = 0  # commits that no branch but a job's, no remote branch and no tag reaches
    landed_in: str = ""  # a ref which holds every changed file as it is here
    problems: tuple[str, ...] = ()

    @property
    def is_safe_to_remove(self) -> bool:
        """Say whether everything in the tree is elsewhere as well."""
        if self.problems:
            return False
        return bool(self.landed_in) or not (self.uncommitted or self.unpushed)


@contextmanager
def opened_look(
    place: TreePlace,
    *,
    folder: str,
    exclude: str,
    runner: ProcessRunner,
    commit: str,
    settings: Mapping[str, str] | None = None,
) -> Iterator[ShadowGit]:
    """Yield a git directory of ours over the tree with an index at `commit`, removed afterwards.

    `folder` is private and must not exist; `exclude` is a file of further ignore rules of ours,
    "" for none; `settings` are the repository's, where they were asked for already. Raises OSError,
    CouldNotCheck or Unavailable.
    """
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    shadow = ShadowGit(folder, place.path, runner)
    try:
        create_shadow(
            shadow,
            common_dir=place.common_dir,
            admin_dir=place.admin_dir,
            commit=commit,
            settings=RepositoryAnswers().settings(place.repo) if settings is None else settings,
            keeps_file_mode=keeps_file_mode(os.path.join(place.path, ".git")),
        )
        if exclude and os.path.isfile(exclude):
            shutil.copyfile(exclude, os.path.join(folder, "info", "exclude"))
        shadow.run(("read-tree", "HEAD"), Deadline(LOOK_TIMEOUT_S))
        yield shadow
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def look_at_tree(
    place: TreePlace,
    base_commit: str,
    *,
    folder: str,
    exclude: str,
    runner: ProcessRunner,
    head_commit: str = "",
    answers: RepositoryAnswers | None = None,
) -> TreeLook:
    """Return what the tree holds. `folder` and `exclude` as in `opened_look`; `head_commit` is
    where its branch stood when it was removed, "" for one that was not; `answers` are shared by
    looks that show one moment.

    Never raises for anything that git or the tree does: what could not be looked at is a problem.
    """
    head = heads_of(place)
    if not head.commit and head_commit:
        head = Head(head_commit, (head_commit,), ())
    if not head.commit:
        return TreeLook(head=head, problems=("HEAD cannot be read",))
    deadline, asked = Deadline(LOOK_TIMEOUT_S), answers or RepositoryAnswers()
    try:
        with opened_look(
            place,
            folder=folder,
            exclude=exclude,
            runner=runner,
            commit=head.commit,
            settings=asked.settings(place.repo),
        ) as shadow:
            return _look(place, base_commit, head, shadow, deadline, asked)
    except FleetError as error:
        return TreeLook(head=head, problems=(str(error),))
    except OSError as error:
        told = f"the tree cannot be read: {error.strerror} ({error.filename})"
        return TreeLook(head=head, problems=(told,))


def _look(
    place: TreePlace,
    base: str,
    head: Head,
    shadow: ShadowGit,
    deadline: Deadline,
    answers: RepositoryAnswers,
) -> TreeLook:
    snapshot = take_snapshot(shadow, deadline, also=(), before=None)
    problems = [problem.message for problem in snapshot.problems]
    inner = look_into_submodules(shadow, snapshot, place.admin_dir, place.common_dir, deadline)
    loose = {path for path, state in snapshot.loose.items() if state not in _PLAIN_SUBMODULE}
    uncommitted = tuple(sorted({*snapshot.changed, *loose, *inner.changed}))
    problems += inner.problems
    refs = answers.other_refs(place.repo)
    unpushed = _count_unpushed(shadow, head.commits, {commit for commit, _ in refs}, deadline)
    is_untouched = head.commit == base and not uncommitted and not _has_submodule(snapshot)
    changed = frozenset[bytes]() if is_untouched else _differing(shadow, base, snapshot, deadline)
    landed = ""
    if changed and not (loose or inner.changed) and _all_in_one_line(head, unpushed):
        landed = _landing(shadow, changed, snapshot, refs, deadline)
    return TreeLook(
        head=head,
        uncommitted=uncommitted,
        changed=tuple(sorted({*changed, *uncommitted})),
        unpushed=unpushed,
        landed_in=landed,
        problems=tuple(problems),
    )


def _all_in_one_line(head: Head, unpushed: int) -> bool:
    """Say whether the files alone tell what the job did: not when its branch stands elsewhere than
    HEAD with commits of its own."""
    return unpushed == 0 or (len(head.commits) == 1 and not head.risks)


def _has_submodule(snapshot: Snapshot) -> bool:
    """Say whether an entry is a commit of another repository, which a status passes over."""
    return any(entry.startswith(_GITLINK) for entry in snapshot.entries.values())


def _count_unpushed(
    shadow: ShadowGit, commits: Sequence[str], others: AbstractSet[str], deadline: Deadline
) -> int:
    if all(commit in others for commit in commits):
        return 0
    wanted = [*commits, *(f"^{commit}" for commit in others)]
    listing, _ = shadow.run(
        ("rev-list", "--count", f"--max-count={_COMMITS_MAX}", "--stdin"),
        deadline,
        stdin="\n".join(wanted).encode() + b"\n",
    )
    return int(listing)


def _differing(
    shadow: ShadowGit, commit: str, snapshot: Snapshot, deadline: Deadline
) -> frozenset[bytes]:
    """Return the paths in which the tree as it stands differs from a commit."""
    if not snapshot.tree:
        return frozenset()
    listing, _ = shadow.run(
        (
            *("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--ignore-submodules=none"),
            *(commit, snapshot.tree),
        ),
        deadline,
    )
    return frozenset(path for path in listing.split(b"\0") if path)


def _landing(
    shadow: ShadowGit,
    changed: frozenset[bytes],
    snapshot: Snapshot,
    refs: Sequence[tuple[str, str]],
    deadline: Deadline,
) -> str:
    for commit, ref in refs[:_LANDINGS_MAX]:
        if not ref.startswith("refs/tags/") and not changed & _differing(
            shadow, commit, snapshot, deadline
        ):
            return ref
    return ""
