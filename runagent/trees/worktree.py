"""The worktree of a job: made beside the repository, filled, locked while the run lasts.

Owns `{repo}-agents/{jobId}` on the branch `wt/{jobId}/{ticket}`. Metadata is written under the
repository's lock, files outside it. Files are written by the host's own git directory, so no hook
and no filter that the repository configures is run. When anything fails nothing is left: no tree,
no branch, no folder. It must never touch the main checkout and never fall back to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from contracts import naming
from contracts.errors import CouldNotCheck, FleetError, RepositoryRefused
from contracts.ids import checked_job_id
from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.files.manifest import Manifest
from runagent.git.repo_lock import hold_repo_lock
from runagent.git.repository import admit_repository, choose_base
from runagent.git.shadow_git import INERT_PATTERN, ShadowGit
from runagent.git.trusted_git import TrustedGit
from runagent.process import ProcessRunner
from runagent.trees.repo_trust import TRUST_ALL, RepoTrust
from runagent.trees.spare import NO_SPARES, SpareStore
from runagent.trees.spare_checkout import put_in_place, warm_up
from runagent.trees.tree_registry import NO_REGISTRY, PlannedTree, TreeRegistry, identity_of_new
from runagent.trees.tree_removal import remove_child, remove_if_empty
from runagent.trees.worktree_extras import Extras
from runagent.trees.worktree_files import cannot_be_filled, fill_worktree, share_index
from runagent.trees.worktree_metadata import (
    add_worktree,
    find_admin_dir,
    make_agents_folder,
    refuse_taken_names,
)
from runagent.trees.worktree_options import WorktreeOptions

_UNDO_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A worktree that stands. All paths are absolute; `repo` and `common_dir` free of links."""

    repo: str  # the main work tree
    common_dir: str  # the git directory that all worktrees of the repository share
    path: str
    branch: str  # without refs/heads/
    base_ref: str  # as people say it
    base_commit: str
    job_id: str
    shadow_dir: str  # the host's own git directory for this worktree
    admin_dir: str = ""  # the worktree's own git directory
    pointer: bytes = b""  # the bytes of its `.git` file as git wrote them
    notes: tuple[Risk, ...] = ()
    # The host's own look that proved these files, of a spare that nothing was written into since.
    seen: Manifest | None = field(default=None, compare=False, repr=False)


def prepare_worktree(
    repo: str,
    *,
    job_id: str,
    ticket: str,
    branch: str | None,
    shadow_dir: str,
    runner: ProcessRunner,
    deadline_s: float,
    trees: TreeRegistry = NO_REGISTRY,
    trust: RepoTrust = TRUST_ALL,
    options: WorktreeOptions | None = None,
    environment: Mapping[str, str] | None = None,
    spares: SpareStore = NO_SPARES,
) -> Worktree:
    """Make the worktree of a job in the repository at `repo` and return it, filled and locked.

    `branch` None means the repository's default (see `choose_base`). `shadow_dir` must not exist,
    its parent must, on a private place outside the agent's reach. `deadline_s` bounds all of it.
    `trees` is told before anything is made, `trust` is asked before that. `options` are the host's,
    `environment` what submodules find their proxies in. A sound one of `spares` saves the checkout.

    Raises RepositoryRefused (its code says why), CouldNotCheck or Unavailable; whatever is raised,
    nothing is left of the attempt.
    """
    deadline = Deadline(deadline_s)
    if os.path.lexists(shadow_dir):
        raise RepositoryRefused(
            f"{shadow_dir} exists already", code="worktree_exists", remedy="send the job anew"
        )
    repository = admit_repository(repo)
    trust.check(repository.common_dir)
    base = choose_base(repository, branch)
    folder = naming.agents_folder(repository.main)
    draft = Worktree(
        repo=repository.main,
        common_dir=repository.common_dir,
        path=os.path.join(folder, checked_job_id(job_id)),
        branch=naming.job_branch(job_id, ticket),
        base_ref=base.ref,
        base_commit=base.commit,
        job_id=job_id,
        shadow_dir=shadow_dir,
    )
    warm = warm_up(
        spares,
        repository.git,
        draft.common_dir,
        job_id=job_id,
        commit=draft.base_commit,
        shadow=ShadowGit(shadow_dir, draft.path, runner),
        volume_of=os.path.dirname(folder),
        deadline=deadline,
    )
    with ExitStack() as undo:
        if warm is not None:
            undo.callback(shutil.rmtree, shadow_dir, ignore_errors=True)
            undo.callback(spares.discard, warm.spare)
        with hold_repo_lock(draft.common_dir, deadline.left_s()):
            refuse_taken_names(repository.git, draft.branch, draft.path)
            trees.plan(_planned(draft, ticket))
            undo.callback(_remove_what_was_made, draft, trees)
            if make_agents_folder(folder, draft.repo):
                undo.callback(remove_if_empty, folder)
            add_worktree(
                repository.git,
                branch=draft.branch,
                path=draft.path,
                commit=draft.base_commit,
                reason=f"fleet-dispatch job {job_id}",
                deadline=deadline,
            )
            draft = replace(draft, admin_dir=find_admin_dir(draft.common_dir, draft.path))
            is_warm = put_in_place(warm, draft.path)
            trees.stands(job_id, admin_dir=draft.admin_dir, identity=identity_of_new(draft.path))
        shadow = ShadowGit(draft.shadow_dir, draft.path, runner)
        filled = _fill(draft, repository.git, shadow, deadline, is_filled=is_warm)
        filled = replace(filled, seen=warm.seen if warm is not None and is_warm else None)
        extras = Extras(options or WorktreeOptions(), environment or {}, runner)
        filled = replace(filled, notes=extras.put_in(shadow, draft.repo, deadline))
        undo.pop_all()
    if warm is not None:
        spares.discard(warm.spare)
    return filled


def stands_in_place(worktree: Worktree) -> bool:
    """Say whether a real folder stands where the worktree was made. A link there may lead into the
    main checkout, and whatever is started in it would work on that."""
    path = worktree.path
    try:
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
    return is_folder and os.path.normcase(os.path.realpath(path)) == os.path.normcase(path)


def unlock_worktree(worktree: Worktree) -> None:
    """Let the owner's plain `git worktree remove` work again. Twice is once; never raises.

    An agent may have been there, so git is not asked: git's lock is the file `locked`.
    """
    if not worktree.admin_dir or os.path.islink(worktree.admin_dir):
        return
    try:
        os.unlink(os.path.join(worktree.admin_dir, "locked"))
    except OSError:
        return


def remove_worktree(worktree: Worktree, trees: TreeRegistry = NO_REGISTRY) -> None:
    """Remove the worktree, its branch, its git state and its shadow: for failure paths alone, where
    no work can be lost. The branch goes only while it still stands at the base commit. `trees` is
    told when nothing is left.

    Raises CouldNotCheck when something stays.
    """
    try:
        remove_child(os.path.dirname(worktree.path), os.path.basename(worktree.path))
        with hold_repo_lock(worktree.common_dir, _UNDO_TIMEOUT_S):
            _remove_metadata(worktree)
    except (OSError, FleetError) as error:
        raise CouldNotCheck(
            f"the worktree {worktree.path} could not be removed whole: {error}",
            remedy="run git worktree prune and look at the folder",
        ) from error
    finally:
        shutil.rmtree(worktree.shadow_dir, ignore_errors=True)
    remove_if_empty(os.path.dirname(worktree.path))
    with contextlib.suppress(FleetError):  # a row too many is struck out by the next collection
        trees.forget(worktree.job_id)


def _planned(draft: Worktree, ticket: str) -> PlannedTree:
    return PlannedTree(
        job_id=draft.job_id,
        path=draft.path,
        repo=draft.repo,
        common_dir=draft.common_dir,
        branch=draft.branch,
        base_commit=draft.base_commit,
        ticket=ticket,
    )


def _remove_what_was_made(draft: Worktree, trees: TreeRegistry) -> None:
    """Undo a failed attempt; the failure itself is what the caller hears of."""
    with contextlib.suppress(CouldNotCheck):
        remove_worktree(draft, trees)


def _remove_metadata(worktree: Worktree) -> None:
    admin_dir = worktree.admin_dir or find_admin_dir(worktree.common_dir, worktree.path)
    if admin_dir:
        remove_child(os.path.dirname(admin_dir), os.path.basename(admin_dir))
        remove_if_empty(os.path.dirname(admin_dir))
    git = TrustedGit(worktree.repo)
    ref = f"refs/heads/{worktree.branch}"
    if git.object_id(ref) == worktree.base_commit:
        git.tell("update-ref", "-d", ref, worktree.base_commit)


def _fill(
    draft: Worktree, git: TrustedGit, shadow: ShadowGit, deadline: Deadline, *, is_filled: bool
) -> Worktree:
    """Check the files out; with `is_filled` they are there, and so is `shadow`."""
    try:
        if is_filled:
            share_index(shadow, draft.admin_dir)
        else:
            fill_worktree(
                shadow,
                common_dir=draft.common_dir,
                admin_dir=draft.admin_dir,
                commit=draft.base_commit,
                settings=git.settings(INERT_PATTERN),
                deadline=deadline,
            )
        with open(os.path.join(draft.path, ".git"), "rb") as file:
            return replace(draft, pointer=file.read())
    except OSError as error:
        raise cannot_be_filled(error) from error
