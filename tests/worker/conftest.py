"""Fixtures of the listener's tests."""

from tests.support.broker import broker
from tests.support.hosts import host
from tests.support.patient import whole_host

__all__ = ["broker", "host", "whole_host"]
