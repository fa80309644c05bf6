"""Which folder of this host a sender's path means. Pure: text in, text out.

The signed request keeps the sender's path; only what the host opens is mapped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")


def map_repo(repo: str, repo_paths: Mapping[str, str]) -> str:
    """Return `repo` with the longest matching prefix of `repo_paths` replaced by its target.

    A prefix matches whole path components. A Windows prefix matches either slash and any case, as
    Windows does; what follows it is written with the slashes of the target. Without a match `repo`
    is returned as it is.
    """
    best: tuple[int, str] | None = None
    for prefix, target in repo_paths.items():
        wanted, given = _components(prefix), _components(repo)
        if _key(prefix, wanted) != _key(prefix, given[: len(wanted)]):
            continue
        if best is None or len(wanted) > best[0]:
            slash = "\\" if _WINDOWS.match(target) else "/"
            rest = given[len(wanted) :]
            best = (len(wanted), slash.join([target.rstrip("/\\"), *rest]) or slash)
    return repo if best is None else best[1]


def _components(path: str) -> list[str]:
    """Return the components; a POSIX path starts with an empty one, `//` and a last slash aside."""
    if _WINDOWS.match(path):
        return [part for part in re.split(r"[\\/]+", path) if part]
    head = [""] if path.startswith("/") else []
    return head + [part for part in path.split("/") if part]


def _key(prefix: str, components: list[str]) -> list[str]:
    return [part.lower() for part in components] if _WINDOWS.match(prefix) else components
