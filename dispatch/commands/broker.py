"""`fleet-dispatch broker`: become the embedded Valkey server, in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from contracts.errors import Unavailable
from dispatch.broker_setup import DEFAULT_PORT
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document

if TYPE_CHECKING:
    from dispatch.broker_setup import BrokerSetup

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch broker
  fleet-dispatch broker --bind 192.168.1.10 --port 6379
"""


@click.command(epilog=_EXAMPLE)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The TCP port; 0 for a free one.",
)
@click.option(
    "--bind",
    metavar="ADDR",
    default="127.0.0.1",
    show_default=True,
    help="The address; beyond this machine a password is made.",
)
@click.option("--data", type=click.Path(file_okay=False), help="Its folder; default: in the state.")
@click.option("--password", is_flag=True, help="Ask clients for a password on loopback as well.")
@json_option
@boundary
def command(*, port: int, bind: str, data: str | None, password: bool, as_json: bool) -> None:
    """Run the broker until a signal ends it. Its URL is printed once; its log goes to stderr.

    The queue survives a restart. A password is shown when it is made and kept in a private file.
    """
    from dispatch.broker_setup import prepare_broker
    from dispatch.settings import load_settings

    folder = Path(data).absolute() if data else load_settings().places.state_dir / "broker"
    setup = prepare_broker(folder, bind=bind, port=port, wants_password=password)
    _hold_folder(setup.data_dir)
    _tell(setup, as_json=as_json)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # the server's log is no part of our stdout
    argv = [str(setup.binary), str(setup.config_file)]
    os.execve(setup.binary, argv, {})  # noqa: S606 - the server takes this process's place


def _tell(setup: BrokerSetup, *, as_json: bool) -> None:
    from dispatch.broker_setup import needs_password
    from dispatch.broker_url import masked_url

    shown = setup.url if setup.is_new_password or not setup.password else masked_url(setup.url)
    if as_json:
        print_document(
            {
                "url": shown,
                "bind": setup.bind,
                "port": setup.port,
                "dataDir": str(setup.data_dir),
                "passwordFile": str(setup.password_file) if setup.password else "",
                "pid": os.getpid(),
            }
        )
    else:
        click.echo(shown)
        click.echo(
            f"the broker runs here, with its data in {setup.data_dir}; Ctrl-C ends it", err=True
        )
    if setup.password:
        click.echo(f"the password is in {setup.password_file}", err=True)
    if needs_password(setup.bind):
        click.echo(
            "note: there is no encryption on this address; use it in a network you trust "
            "or through a tunnel (jobs and results are signed, not secret)",
            err=True,
        )


def _hold_folder(folder: Path) -> None:
    """Lock the data folder for as long as the server lives: two of them would ruin its file.

    The descriptor is handed over to the server, which keeps it open and does not know of it.
    """
    try:
        import fcntl
    except ImportError:  # no such locks here, and no binary either
        return
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise Unavailable(
            f"another broker uses {folder}", remedy="stop it, or choose another --data"
        ) from error
    os.set_inheritable(descriptor, True)  # noqa: FBT003 - the call has no keyword
