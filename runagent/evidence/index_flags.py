"""Which files an agent's own index hides from a plain `git status`.

`git update-index --assume-unchanged` and `--skip-worktree` set a bit at an entry of the worktree's
index, and from then on a person's git does not look at that file. Our own index has no such bits,
so the change itself is reported; that it was hidden is told besides. The index is the agent's: it
is read as bytes, and what cannot be read as an index hides nothing (plain git fails on it aloud).
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from typing import Final

_INDEX_MAX_BYTES: Final = 256 * 1024 * 1024  # 300,000 entries with long names take 60 MB
# Version 4 writes of a name what it adds to the one before: some bytes make names without end.
_NAMES_MAX_BYTES: Final = _INDEX_MAX_BYTES
_STAT_BYTES: Final = 40  # times, device, number, mode, owner, size
_ASSUME_UNCHANGED: Final = 0x8000
_EXTENDED: Final = 0x4000
_SKIP_WORKTREE: Final = 0x4000
_ANY_FLAG: Final = 0xC0  # either of the two, in the first byte of the flags
_FLAGS: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_hidden(index: str, *, id_bytes: int) -> frozenset[bytes]:
    """Return the paths at which the index file hides changes. `id_bytes` is the length of an
    object id: 20, or 32 for sha256. Never raises for anything that stands in the file."""
    try:
        descriptor = os.open(index, _FLAGS)
    except (OSError, ValueError):
        return frozenset()
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > _INDEX_MAX_BYTES:
            return frozenset()
        data = file.read(_INDEX_MAX_BYTES)
    if _hides_nothing(data, id_bytes):
        return frozenset()
    hidden = set()
    try:
        for path, is_hidden in _entries(data, id_bytes):
            if is_hidden:
                hidden.add(path)
    except (struct.error, ValueError, IndexError):
        return frozenset(hidden)
    return frozenset(hidden)


def _hides_nothing(data: bytes, id_bytes: int) -> bool:
    """Say that no entry has a flag at all, which is nearly always so and told in a tenth of the
    time; False where that is not certain, or the index is read in another way."""
    if data[:8] not in (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3") or len(data) < 12:
        return False
    flags_at = _STAT_BYTES + id_bytes
    place, find = 12, data.find
    try:
        for _ in range(int.from_bytes(data[8:12], "big")):
            if data[place + flags_at] & _ANY_FLAG:
                return False
            end = find(b"\0", place + flags_at + 2)
            if end < 0:
                return False
            place += (end - place + 8) // 8 * 8
    except IndexError:
        return False
    return True


def _entries(data: bytes, id_bytes: int) -> Iterator[tuple[bytes, bool]]:
    """Yield (path, hidden) of each entry, versions 2 to 4 of the format."""
    signature, version, count = struct.unpack_from(">4sII", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        raise ValueError
    place, path, names_bytes = 12, b"", 0
    for _ in range(count):
        start = place
        place += _STAT_BYTES + id_bytes
        (flags,) = struct.unpack_from(">H", data, place)
        place += 2
        more = 0
        if version > 2 and flags & _EXTENDED:
            (more,) = struct.unpack_from(">H", data, place)
            place += 2
        if version == 4:
            shared, place = _varint(data, place)
            path = path[: len(path) - shared]
        else:
            path = b""
        end = data.index(b"\0", place)
        path += data[place:end]
        names_bytes += len(path)
        if names_bytes > _NAMES_MAX_BYTES:
            raise ValueError
        place = end + 1
        if version < 4:  # an entry's length is a multiple of 8, with 1 to 8 NUL at its end
            place = start + (end - start + 8) // 8 * 8
        yield path, bool(flags & _ASSUME_UNCHANGED or more & _SKIP_WORKTREE)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return git's variable-length number at `place`, and the place after it."""
    byte = data[place]
    value = byte & 0x7F
    while byte & 0x80:
        place += 1
        byte = data[place]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, place + 1
