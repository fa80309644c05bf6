"""The verb `governor`, in this process, at a real broker."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dispatch.pools.ledger import Ledger
from dispatch.pools.limit import checked_pool
from dispatch.queue.link import connect
from tests.support.broker import Broker


@pytest.fixture
def govern(say: Callable[..., Any], broker: Broker, tmp_path: Any) -> Callable[..., Any]:
    home = {"FLEET_DISPATCH_HOME": str(tmp_path), "FLEET_DISPATCH_REDIS_URL": broker.url}
    return lambda *words: say("governor", *words, environ=home)


def test_pools_are_set_shown_listed_opened_and_removed(
    govern: Callable[..., Any], broker: Broker
) -> None:
    assert "no pool has a limit" in govern("list").err
    said = govern("set", "claude", "--cap", "40", "--window", "5h", "--account", "work")
    assert said.code == 0, said.err
    assert "claude/work  5h      40 runs  0 runs" in said.out
    govern("set", "claude", "--cap", "2.5", "--unit", "dollars", "--window", "7d", "--json")
    shown = json.loads(govern("show", "claude", "--json").out)
    assert shown["limits"] == [
        {
            "unit": "dollars",
            "windowSec": 604_800,
            "cap": 2.5,
            "estimate": 0.25,
            "used": 0.0,
            "reserved": 0.0,
        }
    ]
    ledger = Ledger(connect(broker.url), broker.url)
    ledger.close(checked_pool("grok", "default"), until=None, after_s=600, why="rate\x1b[2J_limit")
    pools = json.loads(govern("list", "--json").out)["pools"]
    assert [(pool["agent"], pool["account"]) for pool in pools] == [
        ("claude", "default"),
        ("claude", "work"),
        ("grok", "default"),
    ]
    assert pools[2]["closedUntil"]
    assert "\x1b" not in govern("list").out
    assert "closed until" in govern("show", "grok").out
    assert "open" in govern("open", "grok").out
    assert govern("open", "grok", "--json").code == 2
    assert "no limit" in govern("remove", "claude", "--account", "work", "--unit", "runs").out
    assert govern("remove", "claude", "--account", "work", "--json").code == 2
    assert json.loads(govern("remove", "claude", "--json").out)["limits"] == []
    assert json.loads(govern("list", "--json").out) == {"pools": []}


def test_what_makes_no_pool_and_no_limit_is_refused(govern: Callable[..., Any]) -> None:
    assert govern("set", "gpt", "--cap", "1", "--window", "1h").code == 2
    assert govern("set", "codex", "--cap", "1", "--window", "forever").code == 2
    half = govern("set", "codex", "--cap", "0.5", "--unit", "runs", "--window", "1h")
    assert half.code == 2, "a half run is not rounded to none"
    assert "--cap" in half.err and "whole number of runs" in half.err
    assert "Example" in govern("set", "--help").out
