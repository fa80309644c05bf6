"""Cutting a byte stream into lines of text while it comes in.

Owns the splitting and the decoding, nothing of what a line means. A line is decoded when it is
whole, so no character is ever cut at a read edge. It must stay flat in memory whatever comes: of
a line without an end only the first part is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# One event of a CLI carries at most a file or a tool's output. What is longer is no event of ours:
# its first part is handed on as text, the raw tail keeps the bytes.
LINE_MAX_BYTES: Final = 1024 * 1024


class LineSplitter:
    """Turns chunks of bytes into lines of text; bytes that are not UTF-8 become U+FFFD."""

    def __init__(self, max_bytes: int = LINE_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._part = bytearray()

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield each line that ends in `chunk`, without its end, cut at `max_bytes` bytes."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._keep(chunk, start, end)
            yield self._take()
            start = end + 1
        self._keep(chunk, start, len(chunk))

    def finish(self) -> Iterator[str]:
        """Yield what stood after the last line end, if anything."""
        if self._part:
            yield self._take()

    def _keep(self, chunk: bytes, start: int, end: int) -> None:
        room = self._max_bytes - len(self._part)
        if room > 0:
            self._part += chunk[start : min(end, start + room)]

    def _take(self) -> str:
        line = bytes(self._part)
        self._part.clear()
        return line.removesuffix(b"\r").decode("utf-8", "replace")
