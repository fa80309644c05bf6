"""Every file of a worktree at one moment, as the file system has it: git is not asked.

Owns what is remembered of a file and what tells two moments apart. A regular file is known by what
the system says of it (device, number, size, both times): an agent can set every one of these but
the time of the last change, which the system sets by its own clock. Whoever can set that clock, or
write to the disk below the file system, is root, and no look at files helps against root.

A folder whose files are as they were is the same object as before, so that three looks at 100,000
files take the memory of one.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from contracts.run_agent import Risk

# mode, names, device, number, size, time of content, time of change (both in ns)
_ITEM: Final = struct.Struct("<IIQQQQQ")
_pack_item: Final = _ITEM.pack  # looked up once: it is called for each file of three looks
_CHANGE_TIME: Final = struct.Struct("<Q")
_MODE: Final = struct.Struct("<I")
_32_BITS: Final = 2**32 - 1
_64_BITS: Final = 2**64 - 1  # a time that an agent set may lie beyond what 64 bits hold
# Linux moves the clock of files in steps of 1 to 10 ms, other systems in finer ones or in whole
# seconds; two changes within one step look alike.
_STEP_NS: Final = 50_000_000
# Where a change of status cannot be told (Windows has the time of creation there), no file is
# taken for unchanged without its bytes.
TELLS_CHANGES: Final = os.name == "posix"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestBounds:
    """How much one look may take in. A host may choose otherwise."""

    files_max: int = 300_000  # some 100 MB; chromium has 400,000 files, Linux 90,000
    depth_max: int = 200  # one open folder each, of the 1,024 that a process has by default
    file_bytes_max: int = 64 * 1024 * 1024  # as much as the git look copies of one file
    bytes_max: int = 4 * 1024 * 1024 * 1024  # read in one look: some ten seconds from a warm disk


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What stood in the tree. Paths are raw bytes relative to its root, with `/`.

    `folders` maps each folder (the root is b"") to its names and their items. `is_whole` says that
    nothing was left out by a bound; what could not be read stands in `unreadable`.
    """

    folders: Mapping[bytes, Mapping[bytes, bytes]] = field(default_factory=dict)
    unreadable: frozenset[bytes] = frozenset()
    is_whole: bool = True
    youngest: Mapping[bytes, int] = field(default_factory=dict)  # folder -> latest change, in ns
    clock_ns: int | None = None  # the file system's own, when the look began; None: not known
    problems: tuple[Risk, ...] = ()

    def item(self, path: bytes) -> bytes | None:
        """Return what is remembered of `path`, None when it was not there."""
        folder, _, name = path.rpartition(b"/")
        return self.folders.get(folder, {}).get(name)

    @property
    def proven_ns(self) -> int:
        """Return the time of change up to which a file that still has its item was surely not
        changed after this look. A younger one was changed in the step of the clock in which the
        look began, or later, and a second change in that step would look the same. Where the clock
        is not known, the youngest file of the tree stands for it."""
        if not TELLS_CHANGES:
            return -1
        began_ns = self.clock_ns
        if began_ns is None:
            began_ns = max(self.youngest.values(), default=0)
        return began_ns - _STEP_NS

    def paths(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every path with its item, folders included."""
        for folder, names in self.folders.items():
            for name, item in names.items():
                yield joined(folder, name), item


FOLDER: Final = _MODE.pack(stat.S_IFDIR)


def pack(found: os.stat_result, target: bytes = b"") -> bytes:
    """Return the item of one name: what is remembered of it. `target` is where a link leads. A
    folder is remembered as one and no more: its times change with every file in it."""
    if stat.S_ISDIR(found.st_mode):
        return FOLDER
    mode, names, device, number = found.st_mode, found.st_nlink, found.st_dev, found.st_ino
    size, content_ns, change_ns = found.st_size, found.st_mtime_ns, found.st_ctime_ns
    try:
        item = _pack_item(mode, names, device, number, size, content_ns, change_ns)
    except struct.error:
        item = _pack_item(
            mode,
            names & _32_BITS,
            device & _64_BITS,
            number & _64_BITS,
            size & _64_BITS,
            content_ns & _64_BITS,
            change_ns & _64_BITS,
        )
    return item + target if target else item


def change_time_ns(item: bytes) -> int:
    """Return the time of the last change in an item, 0 for a folder."""
    return int(_CHANGE_TIME.unpack_from(item, _ITEM.size - 8)[0]) if len(item) > 4 else 0


def size_of(item: bytes) -> int:
    """Return the size of a file in bytes."""
    return int(_ITEM.unpack_from(item)[4])


def has_other_names(item: bytes) -> bool:
    """Say whether a file has names beside this one: they may lie outside the tree."""
    return is_file(item) and int(_ITEM.unpack_from(item)[1]) > 1


def leads_outside(path: bytes, item: bytes) -> bool:
    """Say whether `path` is a link whose words lead out of the tree, other links aside."""
    if kind_of(item) != stat.S_IFLNK:
        return False
    target = item[_ITEM.size :]
    if os.path.isabs(target):
        return True
    whole = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return whole.replace(os.fsencode(os.sep), b"/").split(b"/")[0] == b".."


def kind_of(item: bytes) -> int:
    """Return the kind as `stat.S_IFMT` has it."""
    return stat.S_IFMT(_MODE.unpack_from(item)[0])


def is_file(item: bytes) -> bool:
    """Say whether the item is a regular file's."""
    return kind_of(item) == stat.S_IFREG


def is_folder(item: bytes) -> bool:
    """Say whether the item is a folder's."""
    return kind_of(item) == stat.S_IFDIR


def is_special(item: bytes) -> bool:
    """Say whether the item is neither a file's nor a link's nor a folder's."""
    return kind_of(item) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)


def shape_of(item: bytes) -> tuple[int, int, bytes]:
    """Return what counts of an item beside a file's bytes: its kind, whether its owner may run it
    and as whom (git keeps the first of these alone), and where a link leads."""
    mode = _MODE.unpack_from(item)[0]
    kind = stat.S_IFMT(mode)
    if kind == stat.S_IFREG:
        return kind, mode & (stat.S_IXUSR | stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX), b""
    return kind, 0, item[_ITEM.size :]


def joined(folder: bytes, name: bytes) -> bytes:
    """Return the path of `name` in `folder`."""
    return folder + b"/" + name if folder else name
