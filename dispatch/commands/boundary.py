"""The one top boundary of every verb: errors become words on stderr and an exit code.

With `--json` stdout holds one document whatever happens, errors included. The only place that
catches Exception; a traceback is shown to nobody who did not ask for it, since it may quote input.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import click

from contracts.errors import ExitCode, FleetError, InvalidRequest, Refused
from validation.inert import inert

_P = ParamSpec("_P")
_T = TypeVar("_T")
_LOST_OUTPUT: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG})


def boundary(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Wrap the function of a verb. Put it below the options, next to the function.

    A keyword `as_json` says that stdout belongs to one JSON document. An integer that the function
    returns is the exit code.
    """

    @functools.wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        as_json = bool(kwargs.get("as_json"))
        try:
            answer = function(*args, **kwargs)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except (Exception, KeyboardInterrupt) as error:
            raise SystemExit(int(tell_end(error, as_json=as_json))) from error
        code: object = answer
        if isinstance(code, int) and not isinstance(code, bool) and code != 0:
            raise SystemExit(int(code))
        return answer

    return guarded


def tell_end(error: BaseException, *, as_json: bool) -> ExitCode:
    """Say what ended a verb, and return the exit code for it."""
    if isinstance(error, FleetError):
        show_error(error, as_json=as_json)
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        _say("interrupted", {"kind": "interrupted", "message": "interrupted"}, as_json=as_json)
        return ExitCode.FAILED
    if isinstance(error, OSError) and is_lost_output(error):
        give_up_output(error)
        return ExitCode.FAILED
    apologise(error, as_json=as_json)
    return ExitCode.BUG


def is_lost_output(error: OSError) -> bool:
    """Say whether `error` comes from our standard output: the reader went away, the disk under it
    is full. What concerns a file of ours names it and was translated long before."""
    return error.filename is None and error.errno in _LOST_OUTPUT


def give_up_output(error: OSError) -> None:
    """Say on stderr that stdout takes no more, unless its reader just went away."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        with contextlib.suppress(OSError):
            click.echo(f"error: cannot write to standard output: {error.strerror}", err=True)


def error_document(error: FleetError) -> dict[str, Any]:
    """Return what a program is told of `error`: kind, message, and all problems of a request."""
    document: dict[str, Any] = {
        "kind": error.kind,
        "message": str(error),
        "retryable": error.retryable,
    }
    if isinstance(error, Refused):
        document["code"] = error.code
    if isinstance(error, InvalidRequest):
        document["problems"] = [
            {"field": item.field, "message": item.message, "remedy": item.remedy}
            for item in error.problems
        ]
    return document


def show_error(error: FleetError, *, as_json: bool) -> None:
    """Say `error` on stderr, one line per problem, and on stdout as JSON when asked."""
    lines = [str(problem) for problem in getattr(error, "problems", ())] or [str(error)]
    _say("\n       ".join(lines), error_document(error), as_json=as_json)


def _say(text: str, document: dict[str, Any], *, as_json: bool) -> None:
    click.echo(f"error: {inert(text)}", err=True)
    if as_json:
        try:
            click.echo(json.dumps({"error": document}))
        except OSError as error:
            give_up_output(error)


def apologise(error: BaseException, *, as_json: bool) -> None:
    """Say that we made a mistake, without what it was about; a traceback only on demand."""
    from dispatch.settings import wants_traceback

    if wants_traceback():
        traceback.print_exception(error)
    text = (
        f"this is a mistake of ours ({type(error).__name__}); nothing is known to be lost. "
        "Run it again with FLEET_DISPATCH_DEBUG=1 and send us what it prints"
    )
    _say(text, {"kind": "bug", "message": text, "retryable": False}, as_json=as_json)
