"""`fleet-dispatch listen`: serve lanes on this machine until a signal ends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import click

from contracts.clock import SystemClock
from contracts.errors import InvalidRequest, Problem
from dispatch.collecting import collect_as_usual
from dispatch.commands.boundary import boundary

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch listen --lane MULTI-MODEL --concurrency 2
  fleet-dispatch listen --lane MULTI-MODEL --http 127.0.0.1:8460 --no-queue
"""


@click.command(
    help="Take signed jobs of one or more lanes and run them here.\n\n"
    "One TERM or Ctrl-C drains: nothing new is taken and running jobs finish. A second one stops "
    "them and keeps their work.",
    epilog=_EXAMPLE,
)
@click.option(
    "--lane",
    "lanes",
    multiple=True,
    metavar="NAME",
    help="A lane to serve; repeatable. Default: those in config.toml.",
)
@click.option("--host", default=None, metavar="NAME", help="This host's name, as in its grant.")
@click.option(
    "--concurrency", type=click.IntRange(1, 64), default=None, help="Jobs at the same time."
)
@click.option("--redis-url", default=None, metavar="URL", help="Where the broker is.")
@click.option(
    "--http", "bind", default=None, metavar="HOST:PORT", help="Take jobs over HTTP there, too."
)
@click.option("--http-tls-cert", "tls_cert", default=None, metavar="FILE", help="Its chain, PEM.")
@click.option("--http-tls-key", "tls_key", default=None, metavar="FILE", help="Its key, PEM.")
@click.option("--no-queue", is_flag=True, help="Use no broker: take jobs over HTTP alone.")
@click.option("--json", "as_json", is_flag=True, help="Say state changes as JSON lines on stdout.")
@boundary
def command(
    *,
    lanes: tuple[str, ...],
    host: str | None,
    concurrency: int | None,
    redis_url: str | None,
    bind: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    no_queue: bool,
    as_json: bool,
) -> None:
    """Build the listener from settings and flags, and serve."""
    from dispatch.settings import REDIS_VARIABLE
    from runagent.process import system_runner
    from worker.announcer import Announcer
    from worker.governor.settings import of_a_listener
    from worker.host_sandbox import host_sandbox
    from worker.http.settings import http_door_settings
    from worker.http.tls import load_tls
    from worker.listener import Listener
    from worker.settings import load_host_settings, process_environment

    settings = load_host_settings(
        flags={
            "host.lanes": lanes or None,
            "host.name": host,
            "host.concurrency": concurrency,
            "fleet.redis_url": redis_url,
            "http.bind": bind,
            "http.tls_cert": tls_cert,
            "http.tls_key": tls_key,
        }
    )
    if no_queue and not settings.http.bind:
        problem = Problem("--no-queue", "leaves no way in", "name an address with --http")
        raise InvalidRequest([problem])
    governor = of_a_listener(settings.governor, uses_queue=not no_queue)
    settings = replace(settings, uses_queue=not no_queue, governor=governor)
    http_door_settings(settings.http)  # refused now, with words, before anything is touched
    load_tls(settings.http.tls_cert, settings.http.tls_key)
    host_sandbox(settings, system_runner(), process_environment())  # refused now, not job by job
    clock, url = SystemClock(), {REDIS_VARIABLE: settings.redis_url}
    listener = Listener(
        settings,
        # its runs ask the pools of the very broker that it serves
        environment={**process_environment(), **({} if no_queue else url)},
        runner=system_runner(),
        clock=clock,
        say=Announcer(clock, as_json=as_json),
    )
    listener.install_signals()
    collect_as_usual()
    listener.run()
