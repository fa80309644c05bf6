"""What a file of an agent's tree holds, as the id that git would give to its bytes.

The bytes are read once, by descriptor, through no link, and nothing but a regular file is opened.
The id is git's own, so that the id in the index of the start says what stood there without a read
of the start. It must never run a filter: the bytes are what counts.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from runagent.deadline import Deadline
from runagent.files.manifest import ManifestBounds
from runagent.files.manifest_walk import BY_DESCRIPTOR

_NOTHING_FOLLOWED: Final = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
_FOLDER_FLAGS: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NOTHING_FOLLOWED
_FILE_FLAGS: Final = os.O_RDONLY | getattr(os, "O_BINARY", 0) | _NOTHING_FOLLOWED
_CHUNK_BYTES: Final = 1024 * 1024
# Line ends are looked at in what people write by hand; a larger file is compared by its bytes.
_LINES_MAX_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: the id of its bytes, and of its bytes with every CRLF as LF, in hex."""

    raw: bytes
    lines: bytes

    def is_like(self, other: Content) -> bool:
        """Say whether both hold the same, line ends aside."""
        return self.raw == other.raw or self.lines == other.lines


class ContentReader:
    """Reads files below one root, within the bounds of one look."""

    def __init__(
        self,
        root: str,
        deadline: Deadline,
        *,
        algorithm: str = "sha1",
        bounds: ManifestBounds | None = None,
        by_descriptor: bool = BY_DESCRIPTOR,
    ) -> None:
        """`algorithm` is the repository's object format."""
        self._root = os.fsencode(root)
        self._deadline = deadline
        self._algorithm = algorithm
        self._bounds = bounds or ManifestBounds()
        self._by_descriptor = by_descriptor
        self._read_bytes = 0

    def read(self, path: bytes) -> Content | None:
        """Return what the file `path` holds; None when it cannot be read, is no regular file, or
        lies beyond the bounds."""
        try:
            with self._opened(path) as descriptor:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or not self._may_read(found.st_size):
                    return None
                self._read_bytes += found.st_size
                return self._content(descriptor, found.st_size)
        except OSError:
            return None

    def _may_read(self, size: int) -> bool:
        total = self._read_bytes + size
        within = size <= self._bounds.file_bytes_max and total <= self._bounds.bytes_max
        return within and not self._deadline.is_over()

    def _content(self, descriptor: int, size: int) -> Content:
        if size <= _LINES_MAX_BYTES:
            data = b"".join(_chunks(descriptor, size))
            raw = self._id([data], len(data))
            if b"\r\n" not in data:
                return Content(raw, raw)
            lines = data.replace(b"\r\n", b"\n")
            return Content(raw, self._id([lines], len(lines)))
        raw = self._id(_chunks(descriptor, size), size)
        return Content(raw, raw)

    def _id(self, chunks: Iterator[bytes] | list[bytes], size: int) -> bytes:
        # Git's own choice of algorithm; nobody can make a second file for an id that was given.
        digest = hashlib.new(self._algorithm, b"blob %d\0" % size, usedforsecurity=False)
        for chunk in chunks:
            digest.update(chunk)
        return digest.hexdigest().encode()

    @contextmanager
    def _opened(self, path: bytes) -> Iterator[int]:
        """Open the file, each folder below the one before it."""
        if not self._by_descriptor:
            descriptor = os.open(os.path.join(self._root, path), _FILE_FLAGS)
        else:
            *folders, name = path.split(b"/")
            place = os.open(self._root, _FOLDER_FLAGS)
            try:
                for folder in folders:
                    inner = os.open(folder, _FOLDER_FLAGS, dir_fd=place)
                    os.close(place)
                    place = inner
                descriptor = os.open(name, _FILE_FLAGS, dir_fd=place)
            finally:
                os.close(place)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _chunks(descriptor: int, size: int) -> Iterator[bytes]:
    """Yield at most `size` bytes: a file that grows meanwhile is not read for ever."""
    left = size
    while left > 0 and (chunk := os.read(descriptor, min(left, _CHUNK_BYTES))):
        left -= len(chunk)
        yield chunk
