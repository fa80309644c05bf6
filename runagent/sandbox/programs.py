"""Programs that lie where a box shows nothing, such as a toolchain unpacked below /tmp.

Owns which folders must be shown so that what PATH and an agent's first line name can start. It
looks at names and first lines alone and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

from runagent.sandbox.mounts import Mount, is_inside, read_only

# What stands beside a `bin` and belongs to its programs: Python's, Node's and a prefix's own.
_BESIDE_BIN: Final = ("lib", "lib64", "libexec", "share", "node_modules", "pyvenv.cfg")
_FIRST_LINE_MAX_BYTES: Final = 512


def program_mounts(programs: Iterable[str], path: str, covered: Sequence[str]) -> list[Mount]:
    """Return mounts of the folders of `path` (a PATH) and of `programs` that lie in `covered`
    folders, with the interpreters that their first lines name."""
    folders = [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]
    for program in programs:
        folders += [os.path.dirname(each) for each in (program, *_interpreter(program))]
    shown: dict[str, None] = {}
    for folder in folders:
        for place in {folder: None, os.path.realpath(folder): None}:
            for each in (place, *_beside(place)):
                if os.path.exists(each) and is_inside(each, covered) and each not in covered:
                    shown[os.path.realpath(each)] = None
    return [read_only(each) for each in shown]


def _beside(folder: str) -> list[str]:
    if os.path.basename(folder) not in ("bin", "sbin"):
        return []
    return [os.path.join(os.path.dirname(folder), name) for name in _BESIDE_BIN]


def _interpreter(program: str) -> tuple[str, ...]:
    """Return the interpreter that a script's first line names, as it is and without links."""
    try:
        with open(program, "rb") as file:
            first = file.read(_FIRST_LINE_MAX_BYTES).partition(b"\n")[0]
    except OSError:
        return ()
    words = first[2:].split() if first.startswith(b"#!") else []
    named = os.fsdecode(words[0]) if words else ""
    return (named, os.path.realpath(named)) if os.path.isabs(named) else ()
