"""Looking at this installation: are our files the ones that were installed, and is nothing of ours
hidden behind a folder with the same name. Reads only."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import dispatch
from contracts.errors import KeysRefused
from dispatch.private_files import PERMISSIONS_NOTE, check_private_folder, read_private_file
from dispatch.settings import Places

DISTRIBUTION: Final = "fleet-dispatch"
PACKAGES: Final = ("dispatch", "worker", "runagent", "validation", "contracts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: its name, whether it holds, and what was seen or how to mend it."""

    name: str
    ok: bool
    detail: str


def check_files() -> Finding:
    """Compare the installed files with the hashes that the wheel recorded."""
    name = "installed files"
    try:
        recorded = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        return Finding(name=name, ok=True, detail="not installed: run from its source")
    ours = [item for item in recorded if item.parts[0] in PACKAGES and item.hash is not None]
    if not ours:
        return Finding(name=name, ok=True, detail="an editable installation: nothing is recorded")
    changed = [str(item) for item in ours if not _is_as_recorded(item)]
    if changed:
        detail = f"changed or missing since they were installed: {_some(changed)}; install again"
        return Finding(name=name, ok=False, detail=detail)
    return Finding(name=name, ok=True, detail=f"{len(ours)} files are as they were installed")


def check_packages() -> Finding:
    """Look whether each of our packages is found beside this one and not somewhere else."""
    root = Path(dispatch.__path__[0]).resolve().parent
    strays = [
        f"{name} is {place}"
        for name in PACKAGES
        if (place := _place_of(name)) is None or place.parent != root
    ]
    if strays:
        detail = (
            f"hidden by something else of that name: {_some(strays)}; "
            "run from another folder, or clear PYTHONPATH"
        )
        return Finding(name="packages", ok=False, detail=detail)
    return Finding(name="packages", ok=True, detail=f"all {len(PACKAGES)} come from {root}")


def check_permissions(places: Places) -> Finding:
    """Look whether keys, settings and policy are their owner's alone."""
    name = "permissions"
    if sys.platform == "win32":
        return Finding(name=name, ok=True, detail=PERMISSIONS_NOTE)
    problems = list(_permission_problems(places))
    if problems:
        return Finding(name=name, ok=False, detail="; ".join(problems))
    return Finding(name=name, ok=True, detail=f"{places.config_dir} is private")


def _permission_problems(places: Places) -> Iterator[str]:
    folders = [places.config_dir, places.state_dir, places.keys_dir]
    for folder in (item for item in folders if item.exists()):
        try:
            check_private_folder(folder)
        except KeysRefused as error:
            yield str(error)
    files = [places.config_file, places.policy_file]
    if places.keys_dir.is_dir() and os.access(places.keys_dir, os.R_OK | os.X_OK):
        files += sorted(places.keys_dir.glob("*.json"))
    for file in files:
        try:
            read_private_file(file)
        except FileNotFoundError:
            continue
        except KeysRefused as error:
            yield str(error)


def _is_as_recorded(item: metadata.PackagePath) -> bool:
    assert item.hash is not None
    try:
        path = Path(str(item.locate()))
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        digest = hashlib.new(item.hash.mode, path.read_bytes()).digest()
    except (OSError, ValueError):
        return False
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == item.hash.value


def _place_of(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec is not None else []
    return Path(places[0]).resolve() if places else None


def _some(items: Iterable[str]) -> str:
    listed = list(items)
    more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + more
