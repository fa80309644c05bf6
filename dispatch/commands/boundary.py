"""The one top boundary of every verb: errors become words on stderr and an exit code.

With `--json` stdout holds one document whatever happens, errors included. The only place that
catches Exception; a traceback is shown to nobody who did not ask for it, since it may quote input.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import click

from contracts.errors import ExitCode, FleetError, InvalidRequest, Refused

_P = ParamSpec("_P")
_T = TypeVar("_T")


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
        except FleetError as error:
            show_error(error, as_json=as_json)
            raise SystemExit(int(error.exit_code)) from error
        except KeyboardInterrupt as error:
            _say("interrupted", {"kind": "interrupted", "message": "interrupted"}, as_json=as_json)
            raise SystemExit(int(ExitCode.FAILED)) from error
        except BrokenPipeError as error:  # whoever read us went away: nothing more to say
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(int(ExitCode.FAILED)) from error
        except Exception as error:
            apologise(error, as_json=as_json)
            raise SystemExit(int(ExitCode.BUG)) from error
        code: object = answer
        if isinstance(code, int) and not isinstance(code, bool) and code != 0:
            raise SystemExit(int(code))
        return answer

    return guarded


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
    click.echo(f"error: {text}", err=True)
    if as_json:
        click.echo(json.dumps({"error": document}))


def apologise(error: Exception, *, as_json: bool) -> None:
    """Say that we made a mistake, without what it was about; a traceback only on demand."""
    from dispatch.settings import wants_traceback

    if wants_traceback():
        traceback.print_exception(error)
    text = (
        f"this is a mistake of ours ({type(error).__name__}); nothing is known to be lost. "
        "Run it again with FLEET_DISPATCH_DEBUG=1 and send us what it prints"
    )
    _say(text, {"kind": "bug", "message": text, "retryable": False}, as_json=as_json)
