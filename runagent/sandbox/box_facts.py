"""What is written down of a box, so that its commits come home when the run itself cannot do it.

One file of mode 0600 in the box's folder, beside what the box shows and never shown in it. It is
there from before the agent starts until the commits have come home: a box without it holds no
work. That is true after a power cut as well, because it is on disk before the agent starts.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contracts.errors import CouldNotCheck
from runagent.trees.worktree import Worktree

_NAME: Final = "facts.json"
_MAX_BYTES: Final = 64 * 1024 * 1024  # 50,000 branches (branches.py) of long names are some 10 MiB
_WORKTREE: Final = (
    *("repo", "common_dir", "path", "branch", "base_ref", "base_commit", "job_id"),
    *("shadow_dir", "admin_dir"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFacts:
    """The worktree of a box, the branches as they stood when it was made, and the commits where the
    host itself may have put the job's real ref, oldest first."""

    worktree: Worktree
    branches: Mapping[str, str]
    stood_at: tuple[str, ...]


def write_facts(folder: str, facts: BoxFacts) -> None:
    """Write down `facts` of the box in `folder`; on disk when this returns. Raises OSError."""
    document = {
        "worktree": {name: getattr(facts.worktree, name) for name in _WORKTREE},
        "branches": dict(facts.branches),
        "stoodAt": list(facts.stood_at),
    }
    path = os.path.join(folder, _NAME)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps(document).encode("ascii"))  # names of any bytes: JSON's escapes
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)
    for place in (folder, os.path.dirname(folder)):  # the names, too, must outlive a power cut
        opened = os.open(place, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def read_facts(folder: str) -> BoxFacts | None:
    """Return what is written down of the box in `folder`, None when nothing is.

    Raises CouldNotCheck when it cannot be read.
    """
    path = os.path.join(folder, _NAME)
    try:
        with open(path, "rb") as file:
            document: Any = json.loads(file.read(_MAX_BYTES))
        return BoxFacts(
            worktree=_worktree(document["worktree"]),
            branches={str(ref): str(tip) for ref, tip in document["branches"].items()},
            stood_at=tuple(str(commit) for commit in document["stoodAt"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CouldNotCheck(f"{path} cannot be read: {type(error).__name__}") from error


def _worktree(document: Any) -> Worktree:
    words: dict[str, Any] = {name: str(document[name]) for name in _WORKTREE}
    return Worktree(**words)


def remove_facts(folder: str) -> None:
    """Say that the box in `folder` holds no work that is not at home. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _NAME))
