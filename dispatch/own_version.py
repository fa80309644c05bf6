"""The version of this installation."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def own_version() -> str:
    """Return it, `0+source` where nothing is installed; read once: the code that runs stays."""
    try:
        return version("fleet-dispatch")
    except PackageNotFoundError:
        return "0+source"
