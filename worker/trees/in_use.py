"""Who works in a folder now: processes that stand in it. Looks only, and stops nobody."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Standing:
    """A process and the folder it stands in."""

    pid: int
    name: str
    folder: str


def processes_in_folders() -> tuple[Standing, ...]:
    """Return every process of this machine whose working folder may be read."""
    found = []
    for process in psutil.process_iter(["cwd", "name"]):
        folder = process.info["cwd"]
        if folder:
            found.append(Standing(process.pid, process.info["name"] or "", folder))
    return tuple(found)


def who_stands_in(path: str, processes: tuple[Standing, ...]) -> str:
    """Return who works in `path` or below it, "" when nobody does."""
    inside = path + os.sep
    for process in processes:
        if process.folder == path or process.folder.startswith(inside):
            return f"process {process.pid} ({process.name}) works in it"
    return ""
