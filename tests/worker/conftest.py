"""Fixtures of the listener's tests."""

from tests.support.broker import broker
from tests.support.hosts import host

__all__ = ["broker", "host"]
