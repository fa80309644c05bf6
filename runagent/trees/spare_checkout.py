"""Making a spare tree, and turning one into the tree of a job.

Both ways go through a git directory of the host's own, as every checkout does: no hook, no filter,
no setting that names a program. Whatever is in doubt ends the spare and not the job: the job then
gets a checkout of its own. It must never hand over a tree that was not proved.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from contracts.errors import FleetError, Refused
from runagent.deadline import Deadline
from runagent.files.manifest import Manifest
from runagent.files.tree_proof import proof_of, prove
from runagent.git.repository import Repository
from runagent.git.shadow_git import INERT_PATTERN, ShadowGit, create_shadow
from runagent.git.trusted_git import TrustedGit
from runagent.process import ProcessRunner
from runagent.trees.spare import (
    SHADOW,
    Spare,
    SpareStore,
    digest_of,
    identity_of_repository,
)
from runagent.trees.worktree_files import check_out, keeps_file_mode

# Two changes within one step of the system's clock for files look alike; steps take 10 ms at most.
_STEP_S: Final = 0.1
_ATTRIBUTES: Final = ":(glob)**/.gitattributes"
_PROBE: Final = "probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """A spare that was moved to the base of a job, not yet in its place."""

    spare: Spare
    tree: str
    shadow_dir: str  # the host's git directory for it, the job's own
    seen: Manifest | None = None  # the look that proved it, where nothing was written since


def make_spare(
    folder: str,
    repository: Repository,
    commit: str,
    *,
    runner: ProcessRunner,
    deadline: Deadline,
    max_bytes: int,
) -> Spare:
    """Make a spare of `repository` at `commit` in the private, empty `folder` and return it.

    Raises Refused (code `no_spare`) for a repository that gets none: a sparse checkout,
    submodules, files of more than `max_bytes`, a checkout that git calls changed at once; and what
    a checkout raises.
    """
    settings = repository.git.settings(INERT_PATTERN)
    if settings.get("core.sparsecheckout") == "true":
        raise _no_spare("its checkout is sparse")
    spare = Spare(
        name=os.path.basename(folder),
        folder=folder,
        common_dir=repository.common_dir,
        repository=identity_of_repository(repository.common_dir),
        base_commit=commit,
        manner=manner_of(settings, repository.common_dir),
        proof="",
        index_sha256="",
    )
    os.mkdir(spare.tree)
    shadow = ShadowGit(os.path.join(folder, SHADOW), spare.tree, runner)
    _make_shadow(shadow, spare, settings, commit)
    _refuse_unfit(shadow, commit, max_bytes, deadline)
    check_out(shadow, deadline, workers=1)  # the other cores are the jobs'
    threading.Event().wait(_STEP_S)
    proof = proof_of(spare.tree, deadline)
    shown, _ = shadow.run(
        (
            *("status", "--porcelain=v1", "-z", "--untracked-files=all"),
            *("--ignored=matching", "--ignore-submodules=all"),
        ),
        deadline,
    )
    if shown or not proof or proof_of(spare.tree, deadline) != proof:
        raise _no_spare("its files are not what the commit says right after the checkout")
    return replace(spare, proof=proof, index_sha256=digest_of(spare.index))


def warm_up(
    store: SpareStore,
    git: TrustedGit,
    common_dir: str,
    *,
    job_id: str,
    commit: str,
    shadow: ShadowGit,
    volume_of: str,
    deadline: Deadline,
) -> Warm | None:
    """Take a spare, prove it, and move it to `commit` through the git directory of `shadow`, which
    is made. `volume_of` is a folder on the volume that the job's tree will stand on.

    Returns None when there is none, or in any doubt; then nothing is left of the spare, and
    `shadow` is not there. Never raises for a spare.
    """
    with contextlib.suppress(FleetError, OSError):
        spare = store.take(common_dir, job_id)
        if spare is None:
            return None
        try:
            warm = _move(spare, git, commit, shadow, volume_of, deadline)
            if warm is not None:
                return warm
        except (FleetError, OSError):
            pass
        shutil.rmtree(shadow.directory, ignore_errors=True)
        store.discard(spare)
    return None


def put_in_place(warm: Warm | None, path: str) -> bool:
    """Let the tree of `warm` take the place of the new worktree at `path`, which holds git's
    pointer alone and keeps it; say whether it did. If not, `path` is as it was, and the host's git
    directory for the tree is gone: a checkout makes its own."""
    if warm is None:
        return False
    pointer = os.path.join(path, ".git")
    inner = os.path.join(warm.tree, ".git")
    try:
        os.rename(pointer, inner)
        try:
            os.rename(warm.tree, path)
        except OSError:
            os.rename(inner, pointer)
            raise
    except OSError:
        shutil.rmtree(warm.shadow_dir, ignore_errors=True)
        return False
    return True


def manner_of(settings: Mapping[str, str], common_dir: str) -> str:
    """Return a digest of what decides how the bytes of a commit lie in a tree, beside its own
    attribute files."""
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    attributes = os.path.join(common_dir, "info", "attributes")
    if os.path.isfile(attributes):
        digest.update(digest_of(attributes).encode())
    return digest.hexdigest()


def _move(
    spare: Spare,
    git: TrustedGit,
    commit: str,
    shadow: ShadowGit,
    volume_of: str,
    deadline: Deadline,
) -> Warm | None:
    settings = git.settings(INERT_PATTERN)
    seen = _look_at_sound(spare, settings, volume_of, deadline)
    if seen is None:
        return None
    _make_shadow(shadow, spare, settings, commit)
    shutil.copyfile(spare.index, shadow.index_path)
    if digest_of(shadow.index_path) != spare.index_sha256:
        return None
    warm = Warm(spare=spare, tree=spare.tree, shadow_dir=shadow.directory)
    if commit == spare.base_commit:
        return replace(warm, seen=seen)  # there is nothing to write
    here = ShadowGit.beside(shadow, shadow.directory, spare.tree)
    if _writes_otherwise(here, spare.base_commit, commit, deadline):
        return None
    check_out(here, deadline)
    return warm


def _look_at_sound(
    spare: Spare, settings: Mapping[str, str], volume_of: str, deadline: Deadline
) -> Manifest | None:
    """Return what stands in the spare, None unless that is, to the last file, what was checked out
    into it."""
    if not (
        identity_of_repository(spare.common_dir) == spare.repository
        and manner_of(settings, spare.common_dir) == spare.manner
        and os.lstat(spare.tree).st_dev == os.stat(volume_of).st_dev
        and bool(spare.proof)
    ):
        return None
    proof, seen = prove(spare.tree, deadline)
    return seen if proof == spare.proof else None


def _writes_otherwise(shadow: ShadowGit, old: str, new: str, deadline: Deadline) -> bool:
    """Say whether attribute files differ between the commits: a file that both have may then be
    written with other bytes, and git would leave it as it lies. Raises CouldNotCheck when the old
    commit is not there any more."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--ignore-submodules=none", old, new)
    differing, _ = shadow.run((*words, "--", _ATTRIBUTES), deadline)
    return bool(differing)


def _make_shadow(shadow: ShadowGit, spare: Spare, settings: Mapping[str, str], commit: str) -> None:
    probe = os.path.join(spare.folder, _PROBE)
    with open(probe, "wb"):
        pass
    create_shadow(
        shadow,
        common_dir=spare.common_dir,
        admin_dir=spare.folder,  # holds no list of a sparse checkout
        commit=commit,
        settings=settings,
        keeps_file_mode=keeps_file_mode(probe),
    )


def _refuse_unfit(shadow: ShadowGit, commit: str, max_bytes: int, deadline: Deadline) -> None:
    listing, _ = shadow.run(("ls-tree", "-r", "-l", "-z", commit), deadline)
    total = 0
    for record in listing.split(b"\0"):
        words = record.partition(b"\t")[0].split()
        if words[:1] == [b"160000"]:
            raise _no_spare("it has submodules")
        total += int(words[3]) if len(words) > 3 and words[3].isdigit() else 0
    if total > max_bytes:
        raise _no_spare(f"its files hold {total} bytes, and {max_bytes} are left for spares")


def _no_spare(why: str) -> Refused:
    return Refused(
        f"no spare tree is kept of this repository: {why}",
        code="no_spare",
        remedy="its jobs get a checkout each",
    )
