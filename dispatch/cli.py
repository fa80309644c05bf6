"""The command `fleet-dispatch`: one table of verbs, each loaded when it is named.

The help line of each verb stands in the table, so that `--help` imports click and nothing else.
Floors are held by it as well: a verb of an upper package is a name here, not an import. Knows no
verb's options.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import click

from contracts.errors import ExitCode
from dispatch.collecting import collect_no_more, collect_seldom


@dataclass(frozen=True, slots=True)
class Verb:
    """Where a verb is (`package.module:name`) and its one line of help. `interrupted` names what
    prints the verb's own document when a person stops it before it has begun."""

    target: str
    help: str
    interrupted: str = ""


VERBS: Final[dict[str, Verb]] = {
    "init": Verb("dispatch.commands.init:command", "Set this machine up as sender and host."),
    "keys": Verb("dispatch.commands.keys:command", "Grant, accept, rotate and revoke keys."),
    "enqueue": Verb("dispatch.commands.enqueue:command", "Sign a job and queue it."),
    "send": Verb("dispatch.commands.send:command", "Hand a job to one host, over HTTP."),
    "wait": Verb("dispatch.commands.wait:command", "Wait for the results of jobs."),
    "result": Verb("dispatch.commands.result:command", "Print the result of a job."),
    "cancel": Verb("dispatch.commands.cancel:command", "Take jobs back: end what runs of them."),
    "events": Verb("dispatch.commands.events:command", "Show what an agent does, live or later."),
    "jobs": Verb("dispatch.commands.jobs:command", "Show jobs, and why they wait."),
    "job": Verb("worker.commands.job:command", "Show what this host knows of one of its jobs."),
    "sweep": Verb("dispatch.commands.sweep:command", "See to jobs that were lost or are over."),
    "hosts": Verb("dispatch.commands.hosts:command", "Show hosts with their lanes and agents."),
    "agents": Verb(
        "worker.commands.agents:command", "Show the agents of this machine and what they can do."
    ),
    "governor": Verb("dispatch.commands.governor:command", "Show and set how much agents may use."),
    "listen": Verb("worker.commands.listen:command", "Take jobs of a lane and run them here."),
    "run-agent": Verb(
        "worker.commands.run_agent:command",
        "Run one agent here and now, without a queue.",
        interrupted="worker.commands.run_agent:say_interrupted",
    ),
    "worktrees": Verb(
        "worker.commands.worktrees:command", "Show and remove the worktrees that jobs left here."
    ),
    "repo": Verb("worker.commands.repo:command", "Show, and trust, repositories set aside."),
    "policy": Verb("worker.commands.policy:command", "Explain what a sender may have run here."),
    "sandbox": Verb("worker.commands.sandbox:command", "Try what confines agents on this host."),
    "broker": Verb("dispatch.commands.broker:command", "Run the embedded broker in front."),
    "config": Verb("dispatch.commands.config:command", "Show settings and where they came from."),
    "service": Verb("worker.commands.service:command", "Keep a listener of this machine running."),
    "doctor": Verb("worker.commands.doctor:command", "Check this installation."),
}

# Asked for by `init`: which agents are on PATH, with their versions.
AGENT_FINDER: Final = "worker.agent_finder:find_agents"
# Asked for by `config show`: how each agent is started, defaults included.
AGENT_PRESETS: Final = "worker.agent_finder:agent_presets"

# Asked for by `jobs` and `result`: what this machine's own journal has, where it is a host.
LOCAL_JOBS: Final = "worker.commands.job:print_local_jobs"
LOCAL_RESULT: Final = "worker.commands.job:print_local_result"
# Asked for by `events`: the log of a job on this machine.
LOCAL_EVENTS: Final = "worker.commands.events:local_events"


def load_named(target: str) -> Any:
    """Return the thing called `package.module:name`, importing its module."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


class VerbGroup(click.Group):
    """A click group over the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the verbs in the order of the table."""
        return list(VERBS)

    def get_command(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        cmd_name: str,
    ) -> click.Command | None:
        """Load and return a verb; None when there is no such verb."""
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        command: click.Command = load_named(verb.target)
        return command

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the table without loading a verb."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's own call
    if not wanted or ctx.resilient_parsing:
        return
    from dispatch.own_version import own_version

    click.echo(f"fleet-dispatch {own_version()}")
    ctx.exit()


@click.group(
    cls=VerbGroup,
    epilog="Exit codes: 0 done, 1 our bug, 2 refused or invalid, 3 wait timed out, 4 failed or "
    "timed out, 5 rate limited, 6 approval required.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def command() -> None:
    """Send signed coding jobs to the machines that have the agents, and let the host judge.

    Start with `fleet-dispatch init`; each verb's --help has an example.
    """


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit. The last boundary: what a verb raised is handled in the verb,
    what click found wrong with the words is handled here."""
    collect_seldom()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
    finally:
        collect_no_more()
    sys.exit(code)


def _run(words: Sequence[str]) -> int:
    """Run the verb in `words` and return the exit code; a verb may exit with its own before."""
    try:
        code = command.main(args=words, prog_name="fleet-dispatch", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        _print_error(words, "usage", error.format_message())
        code = int(ExitCode.REFUSED)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        _tell_interrupted(words)
        code = int(ExitCode.FAILED)
    except Exception as error:  # noqa: BLE001 - a verb that cannot even be loaded, or no output
        from dispatch.commands.boundary import tell_end

        code = int(tell_end(error, as_json="--json" in words))
    return code if isinstance(code, int) else int(ExitCode.OK)


def _tell_interrupted(words: Sequence[str]) -> None:
    """Print what the verb owes its reader; a second Ctrl-C does not prevent it."""
    verb = VERBS.get(words[0]) if words else None
    if verb is None or not verb.interrupted:
        _print_error(words, "interrupted", "interrupted")
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        load_named(verb.interrupted)()
    except OSError as error:
        from dispatch.commands.boundary import give_up_output

        give_up_output(error)
    finally:
        signal.signal(signal.SIGINT, before)


def _print_error(words: Sequence[str], kind: str, message: str) -> None:
    """Print the one document of a command line that never reached a verb, when it asks for one."""
    if "--json" not in words:
        return
    try:
        click.echo(json.dumps({"error": {"kind": kind, "message": message}}))
    except OSError as error:
        from dispatch.commands.boundary import give_up_output

        give_up_output(error)
