"""What verbs print: one JSON document, or a table for people. Strangers' text is made harmless."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from validation.inert import inert_json, one_line

_F = TypeVar("_F", bound=Callable[..., Any])
_CELL_MAX_CHARS: Final = 120
_LAST_CELL_MAX_CHARS: Final = 1_000  # the last column is for sentences


def json_option(function: _F) -> _F:
    """Add `--json` as `as_json`."""
    words = "Print one JSON document on stdout and nothing else there."
    return click.option("--json", "as_json", is_flag=True, help=words)(function)


def redis_option(function: _F) -> _F:
    """Add `--redis-url` as `redis_url`."""
    words = "Where the broker is; over FLEET_DISPATCH_REDIS_URL and config.toml."
    return click.option("--redis-url", metavar="URL", default=None, help=words)(function)


def print_document(document: object) -> None:
    """Print one JSON document."""
    click.echo(inert_json(json.dumps(document, ensure_ascii=False, indent=2)))


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under a head, columns aligned."""
    bounds = [_CELL_MAX_CHARS] * (len(head) - 1) + [_LAST_CELL_MAX_CHARS]
    cells = [
        [one_line(str(cell), bound) for cell, bound in zip(row, bounds, strict=True)]
        for row in rows
    ]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    for row in [list(head), *cells]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo(line.rstrip())
