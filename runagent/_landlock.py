"""Landlock for one process and all that it starts: no writes beyond a list of paths.

Runs in the leader, between fork and exec: standard library alone, three system calls through
ctypes, no right needed. It stops writes, reads of files off the list, signals and abstract sockets
out of the domain where the kernel is new enough; it stops neither sockets that have a path nor the
sight of other processes.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CREATE_RULESET = 444  # the same number on every architecture (landlock(7))
_ADD_RULE = 445
_RESTRICT_SELF = 446
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAPBSET_DROP = 24
_CAPABILITIES_MAX = 64  # capabilities(7): two words of 32 bits; the kernel says where its own end

_WRITE_FILE, _READ_FILE = 1 << 1, 1 << 2
_TRUNCATE = 1 << 14  # ABI 3
_REFER = 1 << 13  # ABI 2: without the right, renaming between folders is refused
# REMOVE_DIR, REMOVE_FILE, and MAKE_ of char, dir, reg, sock, fifo, block, sym
_CHANGE_FOLDER = sum(1 << bit for bit in range(4, 13))
# Refused everywhere: through a disk made in its worktree root would read and write all files.
_DEVICE_NODES = 1 << 6 | 1 << 11
_SCOPES = 0b11  # ABI 6: abstract sockets and signals stay in the domain
# What every program writes to; a disk below /dev is not in the list.
_DEVICES = (b"null", b"zero", b"full", b"random", b"urandom", b"tty", b"ptmx", b"pts", b"shm")


def abi() -> int:
    """Return the version of Landlock in this kernel, 0 where there is none."""
    if sys.platform != "linux":
        return 0  # the number means another call there
    try:
        import ctypes

        found = int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, 1))
    except (ImportError, OSError, AttributeError):
        return 0
    return max(0, found)


def confine(writable: Iterable[bytes], readable: Iterable[bytes]) -> None:
    """Let this process write below `writable` and read files below `readable` alone, for good.

    A path that is not there is passed over. Raises OSError where the kernel refuses.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    version = abi()
    if version < 1:
        raise OSError(38, "no Landlock in this kernel")
    files = _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)
    writes = files | _CHANGE_FOLDER | (_REFER if version >= 2 else 0)
    # struct landlock_ruleset_attr: handled_access_fs, handled_access_net, scoped; it grew with ABI
    fields = [writes | _READ_FILE, 0, _SCOPES][: 1 if version < 4 else 2 if version < 6 else 3]
    data = b"".join(field.to_bytes(8, "little") for field in fields)
    ruleset = _checked(ctypes, libc.syscall(_CREATE_RULESET, data, len(data), 0))
    try:
        for path in (*writable, *(b"/dev/" + name for name in _DEVICES)):
            _allow(ctypes, libc, ruleset, path, writes & ~_DEVICE_NODES, files)
        for path in readable:
            _allow(ctypes, libc, ruleset, path, _READ_FILE, _READ_FILE)
        if os.geteuid() == 0:  # nobody else has any, or is given one by a program
            _drop_capabilities(ctypes, libc)
        _checked(ctypes, libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _checked(ctypes, libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _drop_capabilities(ctypes: object, libc: object) -> None:
    """Leave none to the program that is started next: root could trace others and load modules."""
    for number in range(_CAPABILITIES_MAX):
        if libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) < 0:  # type: ignore[attr-defined]
            if ctypes.get_errno() == 22:  # type: ignore[attr-defined]
                return  # the kernel has no more of them
            _checked(ctypes, -1)


def _allow(
    ctypes: object, libc: object, ruleset: int, path: bytes, for_folders: int, for_files: int
) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rights = for_folders if os.path.isdir(path) else for_files
        # struct landlock_path_beneath_attr, packed: allowed_access, parent_fd
        rule = rights.to_bytes(8, "little") + descriptor.to_bytes(4, "little")
        _checked(ctypes, libc.syscall(_ADD_RULE, ruleset, 1, rule, 0))  # type: ignore[attr-defined]
    finally:
        os.close(descriptor)


def _checked(ctypes: object, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()  # type: ignore[attr-defined]
        raise OSError(number, os.strerror(number))
    return result
