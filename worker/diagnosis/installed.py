"""Are our files the installed ones, and are keys, settings and state their owner's alone."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from dispatch import installation
from worker.diagnosis.finding import Finding, Machine, fails, holds


def check_installation(machine: Machine) -> Iterator[Finding]:
    """Compare files with the wheel's RECORD, and packages with their place."""
    del machine
    remedies = {
        "installed files": "install the package again",
        "packages": "run from another folder, or clear PYTHONPATH",
    }
    for found in (installation.check_files(), installation.check_packages()):
        if found.ok:
            yield holds(found.name, found.detail)
        else:
            yield fails(found.name, found.detail, remedies[found.name])


def check_permissions(machine: Machine) -> Iterator[Finding]:
    """Look at the modes of folders 0700 and files 0600."""
    found = installation.check_permissions(machine.settings.places)
    open_files = [str(path) for path in _state_files(machine) if _is_open_to_others(path)]
    if not found.ok:
        yield fails("permissions", found.detail, "as it says; key files of others are not used")
    elif open_files:
        what = f"others can read {', '.join(open_files)}"
        yield fails("permissions", what, f"chmod 600 {' '.join(open_files)}")
    else:
        yield holds("permissions", found.detail)


def _state_files(machine: Machine) -> tuple[Path, ...]:
    host = machine.host
    return (host.journal_file, host.witness_file, machine.settings.places.sent_file)


def _is_open_to_others(path: Path) -> bool:
    try:
        return sys.platform != "win32" and bool(stat.S_IMODE(path.lstat().st_mode) & 0o077)
    except OSError:
        return False
