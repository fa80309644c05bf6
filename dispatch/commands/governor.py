"""`fleet-dispatch governor`: what agents may use on an account, for the whole fleet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from contracts.errors import Refused
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document, print_table, redis_option
from dispatch.commands.sub_verbs import SubVerbs
from dispatch.pools.limit import DEFAULT_ACCOUNT, Unit
from dispatch.times import rfc3339

if TYPE_CHECKING:
    from dispatch.pools.pool_book import LimitUse, PoolBook, PoolView

_ACCOUNT: Final = click.option(
    "--account",
    default=DEFAULT_ACCOUNT,
    show_default=True,
    metavar="NAME",
    help="The account, as hosts name it in [agents.AGENT] account.",
)
_UNITS: Final = click.Choice([unit.value for unit in Unit])


@click.group(
    cls=SubVerbs,
    epilog="""\b
Example, 40 runs in 5 hours and $25 a week on one account:
  fleet-dispatch governor set claude --cap 40 --unit runs --window 5h
  fleet-dispatch governor set claude --cap 25 --unit dollars --window 7d --estimate 0.50
  fleet-dispatch governor list
""",
)
def command() -> None:
    """Show and set how much agents may use: hosts ask before they start one.

    A pool is an agent on an account. Its limits slide: a start counts until the window has passed.
    """


@command.command("list", epilog="\b\nExample:\n  fleet-dispatch governor list --json\n")
@redis_option
@json_option
@boundary
def list_pools(*, redis_url: str | None, as_json: bool) -> None:
    """Show every pool with what is used of it now."""
    with _book(redis_url) as book:
        views = [book.view(pool) for pool in book.pools()]
    views = [view for view in views if view.limits or view.closed_until is not None]
    if as_json:
        print_document({"pools": [_document(view) for view in views]})
        return
    if not views:
        click.echo("no pool has a limit; fleet-dispatch governor set AGENT gives it one", err=True)
        return
    _print_views(views)


@command.command(epilog="\b\nExample:\n  fleet-dispatch governor show codex --account work\n")
@click.argument("agent")
@_ACCOUNT
@redis_option
@json_option
@boundary
def show(*, agent: str, account: str, redis_url: str | None, as_json: bool) -> None:
    """Show one pool."""
    from dispatch.pools.limit import checked_pool

    pool = checked_pool(agent, account)
    with _book(redis_url) as book:
        view = book.view(pool)
    if as_json:
        print_document(_document(view))
    else:
        _print_views([view])


@command.command(
    "set",
    epilog="""\b
Example:
  fleet-dispatch governor set codex --account work --cap 200 --unit runs --window 7d
  fleet-dispatch governor set claude --cap 2000000 --unit tokens --window 5h --estimate 60000
""",
)
@click.argument("agent")
@_ACCOUNT
@click.option("--cap", type=float, required=True, help="At most so much; 0 admits nothing.")
@click.option("--unit", type=_UNITS, default=Unit.RUNS.value, show_default=True, help="Of what.")
@click.option("--window", required=True, metavar="SPAN", help="Within: 45min, 5h, 7d.")
@click.option(
    "--estimate",
    type=float,
    default=None,
    help="Set aside at a start until its use is known; default: a tenth of the cap.",
)
@redis_option
@json_option
@boundary
def set_limit(
    *,
    agent: str,
    account: str,
    cap: float,
    unit: str,
    window: str,
    estimate: float | None,
    redis_url: str | None,
    as_json: bool,
) -> None:
    """Give a pool a limit, in place of its earlier one of the same unit and window."""
    from dispatch.pools.limit import checked_limit, checked_pool

    pool = checked_pool(agent, account)
    limit = checked_limit(Unit(unit), window, cap, estimate)
    with _book(redis_url) as book:
        book.set_limit(pool, limit)
        view = book.view(pool)
    _answer(view, as_json=as_json)


@command.command(
    epilog="\b\nExample:\n  fleet-dispatch governor remove codex --account work --unit runs\n"
)
@click.argument("agent")
@_ACCOUNT
@click.option("--unit", type=_UNITS, default=None, help="Only limits of this; default: all.")
@redis_option
@json_option
@boundary
def remove(
    *, agent: str, account: str, unit: str | None, redis_url: str | None, as_json: bool
) -> None:
    """Take limits from a pool; one without a limit admits everything."""
    from dispatch.pools.limit import checked_pool

    pool = checked_pool(agent, account)
    with _book(redis_url) as book:
        gone = book.remove(pool, unit=None if unit is None else Unit(unit))
        if not gone:
            raise Refused(f"the pool {pool.name} has no such limit", code="no_such_limit")
        view = book.view(pool)
    _answer(view, as_json=as_json)


@command.command(
    "open", epilog="\b\nExample:\n  fleet-dispatch governor open claude --account work\n"
)
@click.argument("agent")
@_ACCOUNT
@redis_option
@json_option
@boundary
def open_pool(*, agent: str, account: str, redis_url: str | None, as_json: bool) -> None:
    """Let a pool admit again that a limit reported by an agent had closed."""
    from dispatch.pools.limit import checked_pool

    pool = checked_pool(agent, account)
    with _book(redis_url) as book:
        if not book.open(pool):
            raise Refused(f"the pool {pool.name} is not closed", code="not_closed")
        view = book.view(pool)
    _answer(view, as_json=as_json)


@contextmanager
def _book(redis_url: str | None) -> Iterator[PoolBook]:
    from dispatch.pools.pool_book import PoolBook
    from dispatch.queue.link import connect
    from dispatch.settings import load_settings

    url = load_settings(flags={"fleet.redis_url": redis_url}).redis_url
    connection = connect(url)
    try:
        yield PoolBook(connection, url)
    finally:
        connection.close()


def _answer(view: PoolView, *, as_json: bool) -> None:
    if as_json:
        print_document(_document(view))
    else:
        _print_views([view])


def _document(view: PoolView) -> dict[str, Any]:
    return {
        "agent": view.pool.agent.value,
        "account": view.pool.account,
        "closedUntil": rfc3339(view.closed_until) or None,
        "closedWhy": view.closed_why,
        "limits": [_limit_document(use) for use in view.limits],
    }


def _limit_document(use: LimitUse) -> dict[str, Any]:
    from dispatch.pools.limit import plain_amount

    unit = use.limit.unit
    return {
        "unit": unit.value,
        "windowSec": use.limit.window_s,
        "cap": plain_amount(unit, use.limit.cap),
        "estimate": plain_amount(unit, use.limit.estimate),
        "used": plain_amount(unit, use.used),
        "reserved": plain_amount(unit, use.reserved),
    }


def _print_views(views: list[PoolView]) -> None:
    rows = [row for view in views for row in _rows(view)]
    print_table(("POOL", "WINDOW", "CAP", "USED", "RUNNING", "STATE"), rows)


def _rows(view: PoolView) -> list[tuple[Any, ...]]:
    from dispatch.pools.limit import amount_words, span_words

    state = "open"
    if view.closed_until is not None:
        state = f"closed until {rfc3339(view.closed_until)}: {view.closed_why}"
    if not view.limits:
        return [(view.pool.name, "", "no limit", "", "", state)]
    return [
        (
            view.pool.name,
            span_words(use.limit.window_s),
            amount_words(use.limit.unit, use.limit.cap),
            amount_words(use.limit.unit, use.used),
            amount_words(use.limit.unit, use.reserved),
            state,
        )
        for use in view.limits
    ]
