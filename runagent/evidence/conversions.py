"""Does git write other bytes into the tree than it stores?

Where it does (CRLF, `$Id$`, another encoding) the id in the index says nothing of a file's bytes,
and the files of the fresh checkout have to be read. Filters are never run for us, so they count for
nothing here. A doubt costs one read of the checkout and no more.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

_ATTRIBUTE: Final = re.compile(rb"(?:^|\s)(?:ident|crlf|eol=crlf|working-tree-encoding=)")
_SETTING: Final = re.compile(rb"^\s*(?:autocrlf = true|eol = crlf)$", re.MULTILINE)
_READ_MAX_BYTES: Final = 1024 * 1024  # what is larger is no attributes file of people: a doubt
_ALWAYS: Final = os.linesep != "\n"


def rewrites_on_checkout(shadow_dir: str, root: bytes, paths: Iterable[bytes]) -> bool:
    """Say whether the checkout at `root` may hold other bytes than git stores. `paths` are those of
    our index, `shadow_dir` is our git directory. No agent may have been there yet."""
    if _ALWAYS or _holds(os.path.join(os.fsencode(shadow_dir), b"config"), _SETTING):
        return True
    files = [os.path.join(root, path) for path in paths if path.endswith(b".gitattributes")]
    files.append(os.path.join(os.fsencode(shadow_dir), b"info", b"attributes"))
    return any(_holds(file, _ATTRIBUTE) for file in files)


def _holds(file: bytes, pattern: re.Pattern[bytes]) -> bool:
    if os.path.islink(file) or not os.path.isfile(file):
        return False
    with open(file, "rb") as stream:
        data = stream.read(_READ_MAX_BYTES + 1)
    return len(data) > _READ_MAX_BYTES or pattern.search(data) is not None
