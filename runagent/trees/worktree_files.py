"""The long part of making a worktree, outside the repository's lock: the files.

The host's own git directory writes them, so that no filter or hook is run; what therefore stays a
pointer, and what git leaves empty in a worktree, is named as a risk.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from contracts.errors import CouldNotCheck, RepositoryRefused, Unavailable
from contracts.run_agent import Risk
from runagent.deadline import Deadline
from runagent.git.shadow_git import ShadowGit, create_shadow
from runagent.git.trusted_git import first_line
from runagent.process import EndState, ProcessOutcome
from runagent.trees.submodules import is_filled
from runagent.trees.worktree_metadata import NO_SPACE

_FILTER: Final = re.compile(rb"(?:^|\s)filter=([A-Za-z0-9_.-]+)")
_ATTRIBUTES_MAX_BYTES: Final = 1024 * 1024
_WORKERS_MORE_THAN_CORES_MAX: Final = 8
_NAMED: Final = 10  # names in a risk's message; the rest is counted
_MISSING: Final = re.compile(
    r"missing blob|unable to read|cannot read object|not our ref|could not fetch|promisor"
)


def fill_worktree(
    shadow: ShadowGit,
    *,
    common_dir: str,
    admin_dir: str,
    commit: str,
    settings: Mapping[str, str],
    deadline: Deadline,
) -> None:
    """Make the git directory of `shadow`, check the files out and give the worktree's own git
    directory the same index; `settings` as in `create_shadow`.

    Raises RepositoryRefused (`no_space`, `objects_missing`), Unavailable when the deadline passes,
    CouldNotCheck, OSError.
    """
    create_shadow(
        shadow,
        common_dir=common_dir,
        admin_dir=admin_dir,
        commit=commit,
        settings=settings,
        keeps_file_mode=keeps_file_mode(os.path.join(shadow.work_tree, ".git")),
    )
    check_out(shadow, deadline)
    share_index(shadow, admin_dir)


def check_out(shadow: ShadowGit, deadline: Deadline, *, workers: int = 0) -> None:
    """Bring the tree of `shadow` to its HEAD: what its index holds already is left as it lies. 0
    `workers` are as many as are of use here.

    Raises as `fill_worktree` does.
    """
    number = str(workers or workers_of(os.cpu_count() or 1))
    outcome = shadow.attempt(
        ("read-tree", "-m", "-u", "HEAD"), deadline, settings={"checkout.workers": number}
    )
    if outcome.state is not EndState.EXITED or outcome.exit_code != 0:
        raise _refusal(outcome, deadline)


def workers_of(cores: int) -> int:
    """Return how many workers a checkout gets on a machine of so many cores. Measured on two with
    10,000 files, seven times in turns: two take some half of one's time, four 0.83 of that of two
    (0.60 to 1.15), eight no less. Each waits for the disk, so that a few more than cores are of
    use; where there are many it was not measured."""
    return max(cores, min(2 * cores, _WORKERS_MORE_THAN_CORES_MAX))


def share_index(shadow: ShadowGit, admin_dir: str) -> None:
    """Give the worktree's own git directory the index of `shadow`. Raises OSError."""
    index = os.path.join(admin_dir, "index")
    shutil.copyfile(shadow.index_path, index + ".new")
    os.replace(index + ".new", index)


def cannot_be_filled(error: OSError) -> RepositoryRefused:
    """Return the refusal of a worktree into which something could not be written."""
    return RepositoryRefused(
        f"the worktree cannot be filled: {error.strerror} ({error.filename})",
        code="no_space" if error.errno in NO_SPACE else "parent_unwritable",
        remedy="make room or mend the folder's permissions",
    )


def keeps_file_mode(probe: str) -> bool:
    """Say whether the disk of the file `probe`, the host's own, keeps the executable bit. What the
    repository's `core.fileMode` says is another matter: it may hide changes of mode."""
    before = stat.S_IMODE(os.lstat(probe).st_mode)
    try:
        os.chmod(probe, before ^ stat.S_IXUSR)
        flipped = stat.S_IMODE(os.lstat(probe).st_mode) == before ^ stat.S_IXUSR
        os.chmod(probe, before)
    except OSError:
        return False
    return flipped


@dataclass(frozen=True, slots=True)
class Listed:
    """The paths of a fresh checkout that are no plain matter, git's own bytes."""

    submodules: tuple[bytes, ...]
    attributes: tuple[bytes, ...]


def list_special(shadow: ShadowGit, deadline: Deadline) -> Listed:
    """Return the submodules and attribute files. Raises CouldNotCheck when git cannot list them."""
    listing, _ = shadow.run(("ls-files", "-s", "-z"), deadline)
    records = listing.split(b"\0")  # mode, id and stage, a tab, the path
    submodules = [_path_in(record) for record in records if record.startswith(b"160000")]
    named = [_path_in(record) for record in records if record.endswith(b".gitattributes")]
    attributes = [path for path in named if path.rpartition(b"/")[2] == b".gitattributes"]
    return Listed(tuple(submodules), tuple(attributes))


def _path_in(record: bytes) -> bytes:
    return record.partition(b"\t")[2]


def note_what_is_missing(
    shadow: ShadowGit, listed: Listed, deadline: Deadline, *, why_empty: str = ""
) -> tuple[Risk, ...]:
    """Return a risk for submodules that are empty, and for files that a filter should have made.

    `why_empty` says what kept them from being filled. Raises CouldNotCheck when git cannot list the
    files.
    """
    root = os.fsencode(shadow.work_tree)
    empty = [path for path in listed.submodules if not is_filled(os.path.join(root, path))]
    notes = []
    if empty or why_empty:
        which = f"are empty folders: {_names(empty)}" if empty else "are not filled whole"
        why = f" ({why_empty})" if why_empty else ""
        message = f"the worktree's submodules {which}{why}"
        notes.append(Risk(code="submodules_empty", message=message))
    attributes = listed.attributes
    for name in sorted(_filters(shadow, attributes)):
        notes.extend(_note_of_filter(shadow, name, deadline))
    return tuple(notes)


def _refusal(outcome: ProcessOutcome, deadline: Deadline) -> Exception:
    text = outcome.stderr.decode("utf-8", "replace")
    if outcome.state is EndState.TIMED_OUT:
        return Unavailable(
            f"the checkout was not done within {deadline.seconds:.0f} s",
            remedy="raise timeout_s under [worktree]",
        )
    if outcome.state is not EndState.EXITED:
        return Unavailable(f"the checkout did not run: {outcome.why}")
    if "No space left" in text or "quota exceeded" in text:
        return RepositoryRefused(
            "the disk filled up during the checkout", code="no_space", remedy="make room"
        )
    if _MISSING.search(text):
        return RepositoryRefused(
            f"objects of the base commit are missing: {first_line(text)}",
            code="objects_missing",
            remedy="check the commit out there once (partial clone), or run git fsck",
        )
    return CouldNotCheck(f"the checkout failed: {first_line(text)}")


def _filters(shadow: ShadowGit, attributes: Iterable[bytes]) -> set[str]:
    """Return the filters that the attribute files of the fresh checkout name."""
    root = os.fsencode(shadow.work_tree)
    files = [os.path.join(root, path) for path in attributes]
    files.append(os.fsencode(os.path.join(shadow.directory, "info", "attributes")))
    found: set[str] = set()
    for file in files:
        if os.path.isfile(file) and not os.path.islink(file):
            with open(file, "rb") as stream:
                text = stream.read(_ATTRIBUTES_MAX_BYTES)
            found.update(name.decode() for name in _FILTER.findall(text))
    return found


def _note_of_filter(shadow: ShadowGit, name: str, deadline: Deadline) -> list[Risk]:
    listing, _ = shadow.run(("ls-files", "-z", "--", f":(attr:filter={name})"), deadline)
    paths = [path for path in listing.split(b"\0") if path]
    if not paths:
        return []
    code = "lfs_pointers" if name == "lfs" else "filter_not_run"
    return [
        Risk(
            code=code,
            message=f"the filter {name} was not run: {len(paths)} files hold what git stores, "
            f"not what the filter makes of it: {_names(paths)}",
        )
    ]


def _names(paths: list[bytes]) -> str:
    shown = ", ".join(path.decode("utf-8", "backslashreplace") for path in paths[:_NAMED])
    return shown if len(paths) <= _NAMED else f"{shown} and {len(paths) - _NAMED} more"
