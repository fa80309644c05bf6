"""Fixtures of the listener's tests."""

from tests.support.broker import broker

__all__ = ["broker"]
