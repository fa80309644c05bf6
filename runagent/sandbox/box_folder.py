"""The folder of a box: what lies in it, its end, and what is done with one that a lost run left.

Owns the names below `<the job's private folder>/box`. A folder with commits that did not come home
is kept, whatever else happens; one without goes. It must never be called for a box that is in use.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

from contracts.errors import CouldNotCheck
from contracts.run_agent import Risk
from runagent.process import ProcessRunner
from runagent.sandbox.box_facts import read_facts, remove_facts
from runagent.sandbox.git_import import GitImport, not_taken, sweep, take_home
from runagent.sandbox.git_layer import GitLayer
from runagent.trees.tree_removal import remove_child

_NAME: Final = "box"
_GIT: Final = "git"
_PRIVATE: Final = ("tmp", "home")
_OF_NO_USE: Final = (*_PRIVATE, "store", "import")


def box_folder(runtime_dir: str) -> str:
    """Return the folder of the box of the job whose private folder is `runtime_dir`."""
    return os.path.join(runtime_dir, _NAME)


def git_folder(folder: str) -> str:
    """Return the box's git directory in its `folder`."""
    return os.path.join(folder, _GIT)


def home_folder(folder: str) -> str:
    """Return the layer over the home."""
    return os.path.join(folder, "home")


def tmp_folder(folder: str) -> str:
    """Return the folder of temporary files."""
    return os.path.join(folder, "tmp")


def make_private_places(folder: str) -> None:
    """Make the empty layer of the home and the empty folder of temporary files. Raises OSError."""
    for name in _PRIVATE:
        os.mkdir(os.path.join(folder, name), 0o700)


def renew_private_places(folder: str) -> None:
    """Take away all that stands in the private places, and make them empty. Raises OSError."""
    for name in _PRIVATE:
        remove_child(folder, name)
    make_private_places(folder)


def import_folder(folder: str) -> str:
    """Return the folder of the host's own git directory for what comes out of the box."""
    return os.path.join(folder, "import")


def store_folder(folder: str) -> str:
    """Return the empty folder where the box shows the real objects."""
    return os.path.join(folder, "store")


def commits_in_box(runtime_dir: str) -> str:
    """Return the box's git directory below `runtime_dir`, "" when there is none: it stays while
    there may be commits in it that did not come home."""
    folder = git_folder(box_folder(runtime_dir))
    return folder if os.path.lexists(folder) else ""


def keeps_commits(runtime_dir: str) -> bool:
    """Say whether a box in `runtime_dir` may hold commits that did not come home."""
    return bool(commits_in_box(runtime_dir))


def empty_box(folder: str, *, is_complete: bool) -> None:
    """Remove the box's `folder`, but for the git directory of one that is not complete. Never
    raises; what cannot be removed stays."""
    names: tuple[str, ...] = _OF_NO_USE
    if is_complete:
        with contextlib.suppress(OSError):
            remove_facts(folder)  # first: what is half removed must not look like work
            names = (*_OF_NO_USE, _GIT)
    for name in names:
        with contextlib.suppress(OSError):
            remove_child(folder, name)
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def recover_box(runtime_dir: str, runner: ProcessRunner, deadline_s: float) -> tuple[Risk, ...]:
    """Bring home what was committed in the box of a run that was lost, and remove its folder.

    Nothing of the run may live any more. Returns the risks: of what stayed, which is kept, and of
    what was left behind on purpose. Nothing happens where there is no box. Never raises.
    """
    folder = box_folder(runtime_dir)
    if not os.path.isdir(folder):
        return ()
    git = git_folder(folder)
    try:
        facts = read_facts(folder)
        if facts is None:  # no agent was started in it, or all has come home
            empty_box(folder, is_complete=True)
            return ()
        remove_child(folder, os.path.basename(import_folder(folder)))  # it may be half written
        layer = GitLayer(git, store_folder(folder), facts.worktree)
        sweep(layer.objects)
        home = GitImport(layer, import_folder(folder), runner, facts)
    except (OSError, CouldNotCheck) as error:
        return (not_taken(git, str(error)),)
    risks = take_home(home, deadline_s)
    empty_box(folder, is_complete=home.is_complete)
    return risks
