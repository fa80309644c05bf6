"""A pool and its limits, as values and as the texts that stand in Redis.

A pool is one agent on one account. It has limits: so many runs, tokens or dollars within a sliding
window. Owns the units and the words for spans of time. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from contracts import limits
from contracts.agent_name import AgentName
from contracts.errors import InvalidRequest, Problem
from contracts.ids import checked_name

DEFAULT_ACCOUNT: Final = "default"
_MICRO: Final = 1_000_000  # dollars are counted in millionths: sums stay whole numbers
_COUNT_MAX: Final = 10**15  # sums of as many bookings as there may be stay within a double
_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})(s|min|m|h|d)")
_SPAN_S: Final = {"s": 1, "min": 60, "m": 60, "h": 3_600, "d": 86_400}


class Unit(StrEnum):
    """What a limit counts."""

    RUNS = "runs"
    TOKENS = "tokens"
    DOLLARS = "dollars"


@dataclass(frozen=True, slots=True)
class Pool:
    """One agent on one account."""

    agent: AgentName
    account: str = DEFAULT_ACCOUNT

    @property
    def name(self) -> str:
        """Return the pool's name in keys and for people."""
        return f"{self.agent.value}/{self.account}"


@dataclass(frozen=True, slots=True)
class PoolLimit:
    """At most `cap` of `unit` within `window_s` seconds; `estimate` is set aside at each start
    until its real use is known. Dollars stand in millionths."""

    unit: Unit
    window_s: int
    cap: int
    estimate: int

    @property
    def field(self) -> str:
        """Return the name of the limit within its pool."""
        return f"{self.unit.value}/{self.window_s}"

    @property
    def value(self) -> str:
        """Return the limit's numbers as they stand in Redis."""
        return f"{self.cap}:{self.estimate}"


def checked_pool(agent: str, account: str) -> Pool:
    """Return the pool of `agent` on `account`. Raises InvalidRequest."""
    names = [name.value for name in AgentName]
    if agent not in names:
        problem = Problem("AGENT", "is not an agent we know", f"one of {', '.join(names)}")
        raise InvalidRequest([problem])
    return Pool(AgentName(agent), checked_name(account, "--account"))


def read_pool(name: str) -> Pool | None:
    """Return the pool called `name` in Redis, None when that is no pool's name."""
    agent, _, account = name.partition("/")
    try:
        return checked_pool(agent, account)
    except InvalidRequest:
        return None


def checked_limit(unit: Unit, window: str, cap: float, estimate: float | None) -> PoolLimit:
    """Return the limit that a person asked for. An estimate that is not given is 1 for runs, and a
    tenth of the cap for the others. Raises InvalidRequest with all problems."""
    problems = []
    window_s = _read_span(window)
    if window_s is None or not _is_window(window_s):
        remedy = f"such as 45min, 5h or 7d, at most {limits.POOL_WINDOW_MAX_S // 86_400}d"
        problems.append(Problem("--window", "is no span of time for a pool", remedy))
    whole_cap = _whole(unit, cap)
    wanted = whole_cap / 10 if estimate is None and unit is not Unit.RUNS else None
    whole_estimate = int(wanted) if wanted is not None else _whole(unit, estimate or 0)
    if unit is Unit.RUNS:
        whole_estimate = 1
        if estimate not in (None, 1):
            problems.append(Problem("--estimate", "is one run for runs", "leave it out"))
    if unit is not Unit.DOLLARS and 0 <= whole_cap != cap:
        problems.append(Problem("--cap", f"is no whole number of {unit.value}", "1, or 0 for none"))
    for option, number in (("--cap", whole_cap), ("--estimate", whole_estimate)):
        if not 0 <= number <= _COUNT_MAX:
            problems.append(Problem(option, "is out of bounds", f"0 to {_COUNT_MAX}"))
    if problems:
        raise InvalidRequest(problems)
    assert window_s is not None
    return PoolLimit(unit, window_s, whole_cap, whole_estimate)


def read_limit(field: str, value: str) -> PoolLimit | None:
    """Return the limit that stands in Redis as `field` and `value`; None for what is none."""
    named = re.fullmatch(r"(runs|tokens|dollars)/([0-9]{1,9})", field, re.ASCII)
    numbers = re.fullmatch(r"([0-9]{1,16}):([0-9]{1,16})", value, re.ASCII)
    if named is None or numbers is None or not _is_window(int(named[2])):
        return None
    return PoolLimit(Unit(named[1]), int(named[2]), int(numbers[1]), int(numbers[2]))


def micro_dollars(dollars: float) -> int:
    """Return `dollars` in millionths."""
    return min(round(dollars * _MICRO), _COUNT_MAX)


def amount_words(unit: Unit, amount: int) -> str:
    """Return an amount for people: `10 runs`, `$2.50`."""
    if unit is Unit.DOLLARS:
        return f"${amount / _MICRO:.2f}"
    return f"{amount} {unit.value}"


def plain_amount(unit: Unit, amount: int) -> float | int:
    """Return an amount for programs: dollars as such."""
    return amount / _MICRO if unit is Unit.DOLLARS else amount


def span_words(seconds: int) -> str:
    """Return a window in the largest unit that fits exactly: 5h, 90min, 7d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _is_window(seconds: int) -> bool:
    return limits.POOL_WINDOW_MIN_S <= seconds <= limits.POOL_WINDOW_MAX_S


def _read_span(text: str) -> int | None:
    found = _SPAN.fullmatch(text)
    return None if found is None else int(found[1]) * _SPAN_S[found[2]]


def _whole(unit: Unit, amount: float) -> int:
    if not -_COUNT_MAX <= amount <= _COUNT_MAX:  # infinity, and what is no number
        return -1
    return micro_dollars(amount) if unit is Unit.DOLLARS else int(amount)
