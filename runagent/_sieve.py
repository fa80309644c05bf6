"""System calls that no program in a box may make: they change a file and move none of its times.

File systems have them for tools that move a file's blocks about (ext4(5) online defragmentation,
`xfs_fsr`): the blocks of two files change places, and what is held against the time of the last
change looks untouched. Seen on ext4: the donor reads as zeros, with every time as it was. A filter
of the kernel's own (seccomp(2)) refuses them, as a file system without them would. Runs in the
leader too: standard library alone.
"""

from __future__ import annotations

import struct
import sys

# ioctl: x86-64; the table of arm64 and riscv; i386, arm, ppc, s390; x32. What has one of these
# numbers elsewhere has no request of ours as its second argument.
_CALLS = (16, 29, 54, 0x40000000 + 514)
# Type and number; size and direction differ between architectures. EXT4_IOC_MOVE_EXT,
# XFS_IOC_SWAPEXT, F2FS_IOC_MOVE_RANGE.
_REQUESTS = (ord("f") << 8 | 15, ord("X") << 8 | 109, 0xF5 << 8 | 9)
_LOAD, _IF_EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06  # linux/bpf_common.h
_ALLOW, _EOPNOTSUPP = 0x7FFF0000, 0x00050000 | 95
_SECOND_ARGUMENT = 24 if sys.byteorder == "little" else 28  # its low half, in seccomp_data
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def filter_bytes() -> bytes:
    """Return the filter as the kernel, and bubblewrap's `--seccomp`, take it."""
    calls, requests = len(_CALLS), len(_REQUESTS)
    lines = [(_LOAD, 0, 0, 0)]
    lines += [(_IF_EQUAL, calls - at, 0, call) for at, call in enumerate(_CALLS)]
    lines += [(_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _SECOND_ARGUMENT), (_AND, 0, 0, 0xFFFF)]
    lines += [(_IF_EQUAL, requests - at, 0, request) for at, request in enumerate(_REQUESTS)]
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _EOPNOTSUPP)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def confine() -> None:
    """Put this process, and all that it starts, behind the filter, for good. It must have given up
    new privileges. Raises OSError where the kernel refuses."""
    import ctypes

    data = filter_bytes()
    libc = ctypes.CDLL(None, use_errno=True)
    held = ctypes.create_string_buffer(data, len(data))
    # struct sock_fprog: the count of lines, then their address
    program = struct.pack("@HP", len(data) // 8, ctypes.addressof(held))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "no filter of system calls")
