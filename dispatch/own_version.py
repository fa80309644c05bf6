"""The version of this installation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """Return it, `0+source` where nothing is installed."""
    try:
        return version("fleet-dispatch")
    except PackageNotFoundError:
        return "0+source"
