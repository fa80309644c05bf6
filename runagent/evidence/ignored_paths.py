"""Which paths git ignores, and which of them nobody needs to look at.

An agent can write the very rules by which its files are ignored. What its own rules hide is told,
with one exception: the folders in which tools keep what they can make again, many of which ignore
themselves by a rule file of their own (pytest, mypy, ruff, venv). They are listed, and no alarm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

RULE_FILE: Final = b".gitignore"
_TOOL_CACHES: Final = frozenset(
    {
        *(b"__pycache__", b".pytest_cache", b".mypy_cache", b".ruff_cache", b".hypothesis"),
        *(b".tox", b".nox", b".venv", b"venv", b".eggs", b".ipynb_checkpoints"),
        *(b"node_modules", b".npm", b".yarn", b".pnpm-store", b".parcel-cache", b".turbo"),
        *(b".gradle", b".kotlin", b".vs", b".idea", b".dart_tool"),
    }
)


class IgnoredPaths:
    """What git's status calls ignored: paths, and folders (with a `/` at the end) as a whole.
    `entries` are what our index holds: a file that is tracked is not ignored."""

    def __init__(self, ignored: Iterable[bytes], entries: Mapping[bytes, bytes]) -> None:
        self._paths = frozenset(ignored)
        self._entries = entries
        self._folders: dict[bytes, bool] = {b"": False}

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, bytes) or path in self._entries:
            return False
        return path in self._paths or self.is_below_one(path)

    def shown(self, path: bytes) -> bytes:
        """Return what people read for an ignored path: the folder that is ignored whole, with a
        `/` at its end, or the path itself."""
        for place, byte in enumerate(path):
            if byte == ord("/") and path[: place + 1] in self._paths:
                return path[: place + 1]
        return path

    def is_below_one(self, path: bytes) -> bool:
        """Say whether a folder above `path` is ignored as a whole."""
        return self._covers(path.rpartition(b"/")[0])

    def _covers(self, folder: bytes) -> bool:
        if folder not in self._folders:
            above = self._covers(folder.rpartition(b"/")[0])
            self._folders[folder] = above or folder + b"/" in self._paths
        return self._folders[folder]


def is_tool_cache(path: bytes) -> bool:
    """Say whether a folder above `path` is one in which a tool keeps what it can make again."""
    return not _TOOL_CACHES.isdisjoint(path.split(b"/")[:-1])


def hidden_by_rules(rule_files: Iterable[bytes], ignored: Iterable[bytes]) -> list[bytes]:
    """Return those of `ignored` that the changed `rule_files` may have made so, sorted: they lie at
    or below the folder of one, and in no tool's cache."""
    folders = {path.rpartition(b"/")[0] for path in rule_files}
    return sorted(
        path
        for path in ignored
        if not is_tool_cache(path) and not folders.isdisjoint(_folders_above(path))
    )


def _folders_above(path: bytes) -> list[bytes]:
    return [b"", *(path[:place] for place, byte in enumerate(path) if byte == ord("/"))]
