"""A network that holds loopback and nothing else, for this process and all below it.

Where the kernel grants one (root on Linux), nothing that a CLI tries can reach another machine:
that is a proof and no setting. Elsewhere the proxy variables, which lead to the scripted model
alone, are all there is, and the report says so.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

_CLONE_NEWNET = 0x40000000  # unshare(2)
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1  # netdevice(7)


def close_network() -> bool:
    """Leave every network but a new loopback; say whether that was granted. It cannot be undone."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(door, _GET_FLAGS, request))[1]
        fcntl.ioctl(door, _SET_FLAGS, struct.pack("16sH14s", b"lo", flags | _UP, b""))
    return interfaces() == ["lo"]


def interfaces() -> list[str]:
    """Return the network interfaces that this process sees."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sorted(line.partition(":")[0].strip() for line in lines)


def own_environment() -> dict[str, str]:
    """Return what our own process keeps: where programs are, and nothing of whoever runs this."""
    kept = {"PATH", "LANG", "TMPDIR"}
    return {name: value for name, value in os.environ.items() if name in kept}
