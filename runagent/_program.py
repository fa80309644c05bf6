"""Finds the program of a command, and says in words why one did not start.

Pure of any process. Relative and empty PATH entries are never searched: the working directory is
a repository that an agent or a stranger wrote, and a `codex` lying in it is not the agent.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from runagent.process import ProcessSpec

ARGUMENT_MAX_BYTES = 131_072  # Linux MAX_ARG_STRLEN: 32 pages for one argument, its NUL included


class NoProgram(Exception):
    """The spec cannot be started; the text says what and how to mend it."""


def find_program(spec: ProcessSpec) -> str:
    """Return the path of argv[0]: as it is when it holds a slash, else from the PATH of `spec.env`.

    Raises NoProgram when there is none that can be executed.
    """
    name = checked(spec)
    if "/" in name:
        return name
    entries = spec.env.get("PATH", os.defpath).split(os.pathsep)
    candidates = [os.path.join(entry, name) for entry in entries if os.path.isabs(entry)]
    files = [path for path in candidates if os.path.isfile(path)]
    for path in files:
        if os.access(path, os.X_OK):
            return path
    if files:
        raise NoProgram(f"{files[0]} is not executable (chmod +x it)")
    raise NoProgram(
        f"{name}: not found on PATH (install it, or put its folder on the PATH of this host)"
    )


def checked(spec: ProcessSpec) -> str:
    """Return argv[0]. Raises NoProgram for what no system call could take."""
    if not spec.argv or not spec.argv[0]:
        raise NoProgram("the command is empty (name a program)")
    if any("\0" in text for text in (*spec.argv, spec.cwd)):
        raise NoProgram("an argument holds a NUL byte (no program can be given one: remove it)")
    if any("\0" in name + value or "=" in name or not name for name, value in spec.env.items()):
        raise NoProgram("an environment entry holds a NUL byte or an empty or odd name (mend it)")
    return spec.argv[0]


def explain(stage: str, number: int, spec: ProcessSpec, program: str) -> str:
    """Return why the start failed, from the stage of the start and its errno."""
    reason = os.strerror(number)
    if stage == "cwd":
        return (
            f"the working directory {spec.cwd} cannot be entered: {reason} "
            "(see that it exists and that this user may enter it)"
        )
    if stage == "landlock":
        return f"Landlock refused: {reason} (see fleet-dispatch sandbox check)"
    if stage == "sieve":
        return f"no filter of system calls: {reason} (see fleet-dispatch sandbox check)"
    if stage == "fork":
        return f"no process could be made: {reason} (this host is out of processes or memory)"
    if number == errno.E2BIG:
        return too_big(spec)
    if number == errno.ENOENT and os.path.exists(os.path.join(spec.cwd, program)):
        return f"{program}: the interpreter on its first line is missing (install it)"
    remedies = {
        errno.ENOENT: "it does not exist: install it or correct its path",
        errno.EACCES: "chmod +x it, and see that its folders may be entered",
        errno.ENOEXEC: "it is no program of this machine, or a script without a #! line",
        errno.ENOTDIR: "a part of its path is not a folder: correct it",
    }
    return f"{program} did not start: {reason} ({remedies.get(number, 'see the reason')})"


def too_big(spec: ProcessSpec) -> str:
    """Return the text for E2BIG; sizes only, never the arguments."""
    longest = max(len(os.fsencode(argument)) for argument in spec.argv)
    total = sum(len(os.fsencode(text)) + 1 for text in spec.argv) + environment_bytes(spec.env)
    return (
        f"the arguments and environment of {spec.argv[0]} are too large for this system: "
        f"{total} bytes, the longest argument {longest} (one may have {ARGUMENT_MAX_BYTES - 1}; "
        "send long text on standard input)"
    )


def environment_bytes(env: Mapping[str, str]) -> int:
    """Return how many bytes an environment takes in a new process."""
    return sum(len(os.fsencode(name)) + len(os.fsencode(value)) + 2 for name, value in env.items())
