"""`fleet-dispatch run-agent`: the same run as a queued one, here and now.

Composes settings, journal and terminal around `runagent.host`. No keys, no broker; repository
roots and validator policy bind senders, not the person at the machine. stdout holds the indented
result JSON and nothing else, whatever happens: a typing mistake, a refusal and Ctrl-C included.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

import click

from contracts.agent_name import AgentName
from contracts.errors import (
    ExitCode,
    FleetError,
    Interrupted,
    InvalidRequest,
    Problem,
)
from contracts.ids import new_job_id
from dispatch.commands.boundary import boundary
from validation.inert import inert_json

if TYPE_CHECKING:
    from pydantic import JsonValue

    from contracts.run_agent import RunAgentResult

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch run-agent --agent codex --task "Fix the parser" --repo . --ticket FLT-7 \\
      --validate-cmd "pytest -q"
"""


class ResultCommand(click.Command):
    """A command whose stdout is a result even when its own options cannot be read."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; what cannot be read is a refused run: usage on stderr, exit 2."""
        from worker.runs.terminal import open_missing_streams

        open_missing_streams()
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.show(file=sys.stderr)
            problem = Problem("command line", error.format_message(), "see run-agent --help")
            _print(_refused({}, InvalidRequest([problem])))
            ctx.exit(int(ExitCode.REFUSED))


@click.command(
    cls=ResultCommand,
    help="Have an agent do a task in a repository on this machine, and validate its work.\n\n"
    "The agent works in a worktree of its own beside the repository; the checkout is not touched. "
    "Prints the result as JSON. Exit 0 completed, 2 refused, 4 failed or timed out, 5 rate "
    "limited, 6 approval required.",
    epilog=_EXAMPLE,
)
@click.option("--agent", metavar="NAME", help=f"One of {', '.join(AgentName)}.")
@click.option("--task", metavar="TEXT", help="The task; or give --task-file.")
@click.option("--task-file", metavar="PATH", help="A file with the task; - reads stdin.")
@click.option("--repo", metavar="PATH", help="The git repository to work in.")
@click.option("--ticket", metavar="ID", help="Becomes part of the branch name.")
@click.option(
    "--branch",
    metavar="REF",
    help="Where to start from; default: master, else origin's default, else the only branch.",
)
@click.option("--mode", metavar="WORD", help="A hint that is recorded (default: build).")
@click.option(
    "--timeout", type=int, metavar="S", help="The agent's limit, 60 to 14400 s; default: 1200."
)
@click.option("--validate-cmd", metavar="CMD", help="A shell command that judges the work.")
@click.option("--json", "as_json", is_flag=True, help="The result is JSON anyway.")
@click.pass_context
@boundary
def command(ctx: click.Context, /, **options: Any) -> None:
    """Run, print the result, and exit as it says."""
    options.pop("as_json")
    job_id = new_job_id()
    payload: dict[str, JsonValue] = {}
    try:
        from worker.runs.local_run import run_here  # within: it takes as long as a Ctrl-C does

        payload = _payload(**options)
        result = run_here(payload, job_id=job_id, stderr=sys.stderr)
    except FleetError as error:
        result = _refused(payload, error, job_id)
    except KeyboardInterrupt:
        result = _refused(payload, Interrupted("stopped before anything was started"), job_id)
    except Exception as error:  # noqa: BLE001  # stdout owes a result for our own mistakes too
        result = _broken(payload, error, job_id)
    try:
        _print(result)
    finally:  # also when Ctrl-C ended whoever reads stdout: the person still sees where the work is
        if sys.stderr.isatty():
            from worker.runs.terminal import next_steps

            click.echo(next_steps(result, str(payload.get("repo", ""))), err=True)
    ctx.exit(int(exit_code_of(result)))


def exit_code_of(result: RunAgentResult) -> ExitCode:
    """Return the exit code of a local run: 2 when it was refused before anything was started, 1
    when it broke off by our own mistake, else the status's own."""
    from worker.runs.outcome import EXIT_CODES, was_declined

    codes = {risk.code for risk in result.risks}
    if "internal_error" in codes:
        return ExitCode.BUG
    return ExitCode.REFUSED if was_declined(result) else EXIT_CODES[result.status]


def _payload(
    *,
    agent: str | None,
    task: str | None,
    task_file: str | None,
    repo: str | None,
    ticket: str | None,
    branch: str | None,
    mode: str | None,
    timeout: int | None,
    validate_cmd: str | None,
) -> dict[str, JsonValue]:
    """Return the request as a queued job would carry it; what was not given is not in it."""
    from worker.runs.local_run import read_task

    given: dict[str, JsonValue] = {
        "agent": agent,
        "task": read_task(task, task_file),
        "repo": _absolute(repo) if repo else repo,
        "ticket": ticket,
        "branch": branch,
        "mode": mode,
        "timeoutSec": timeout,
        "validateCommand": validate_cmd,
    }
    return {name: value for name, value in given.items() if value is not None}


def _absolute(repo: str) -> str:
    try:
        return os.path.abspath(repo)
    except OSError as error:  # the folder that we were started in was removed
        remedy = "give an absolute path, or change to a folder that exists"
        problem = Problem("repo", "is relative, and the current folder is gone", remedy)
        raise InvalidRequest([problem]) from error


def say_interrupted() -> None:
    """Print the result of a run that was stopped while the program was still loading."""
    _print(_refused({}, Interrupted("stopped before anything was started")))


def _refused(payload: dict[str, JsonValue], error: FleetError, job_id: str = "") -> RunAgentResult:
    from validation.admission import refused_result

    return refused_result(payload, error, job_id=job_id, host="")


def _broken(payload: dict[str, JsonValue], error: Exception, job_id: str) -> RunAgentResult:
    from contracts.run_agent import Risk
    from dispatch.settings import wants_traceback

    if wants_traceback():
        traceback.print_exception(error)
    message = (
        f"a mistake of fleet-dispatch itself ({type(error).__name__}); "
        "run it again with FLEET_DISPATCH_DEBUG=1 to see where"
    )
    refused = _refused(payload, FleetError(message), job_id)
    risk = Risk(code="internal_error", message=message)
    return refused.model_copy(update={"risks": (risk,), "known_risks": (message,)})


def _print(result: RunAgentResult) -> None:
    try:
        click.echo(
            inert_json(result.to_json(indent=2)).encode("utf-8")
        )  # JSON is UTF-8, whatever the locale
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        place = f"; the work stands in {result.worktreePath}" if result.worktreePath else ""
        message = f"the result ({result.status}) cannot be written to stdout: {error.strerror}"
        click.echo(f"error: {message}{place} (make room, or send it elsewhere)", err=True)
        # What is still buffered would fail once more at the interpreter's end, with exit 120.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(int(ExitCode.FAILED)) from error
