"""`fleet-dispatch keys export` and `import`: all keys of this machine, under a passphrase.

The passphrase is asked for, or read from a file or stdin: never an argument and never a variable of
the environment, which other programs can read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from contracts.errors import InvalidRequest, KeysRefused, Problem, Refused
from dispatch.commands.boundary import boundary
from dispatch.commands.output import json_option, print_document

_LINE_MAX_BYTES: Final = 4096
_BUNDLE_MAX_BYTES: Final = 64 * 1024 * 1024  # a fleet of thousands of hosts


def _passphrase_options(function: Any) -> Any:
    by_file = click.option(
        "--passphrase-file",
        type=click.Path(dir_okay=False),
        default=None,
        help="Its first line is the passphrase; the file must be yours alone (0600).",
    )
    by_stdin = click.option(
        "--passphrase-stdin", is_flag=True, help="Read the passphrase from stdin's first line."
    )
    return by_file(by_stdin(function))


@click.command(
    "export", epilog="\b\nExample:\n  fleet-dispatch keys export --out keys.backup.json\n"
)
@click.option(
    "--out", type=click.Path(dir_okay=False), required=True, help="The file to write (0600)."
)
@_passphrase_options
@json_option
@boundary
def export_all(
    *, out: str, passphrase_file: str | None, passphrase_stdin: bool, as_json: bool
) -> None:
    """Write all keys of this machine into one file, encrypted under a passphrase."""
    from dispatch.key_bundle import export_keys
    from dispatch.private_files import write_private_file
    from dispatch.settings import load_settings

    keys = load_settings().places.keys_dir
    passphrase = _read_passphrase(passphrase_file, by_stdin=passphrase_stdin, confirm=True)
    data = export_keys(keys, passphrase)
    try:
        write_private_file(Path(out), data, replace=False)
    except FileExistsError as error:
        remedy = "name another file with --out, or remove it"
        raise Refused(f"{out} exists", code="exists", remedy=remedy) from error
    if as_json:
        print_document({"file": out})
        return
    click.echo(f"wrote {out}; whoever has it and the passphrase has the keys")


@click.command("import", epilog="\b\nExample:\n  fleet-dispatch keys import keys.backup.json\n")
@click.argument("file")
@_passphrase_options
@json_option
@boundary
def import_all(
    *, file: str, passphrase_file: str | None, passphrase_stdin: bool, as_json: bool
) -> None:
    """Take in what `keys export` wrote: all of it or nothing; what is here stays as it is."""
    from dispatch.key_bundle import import_keys
    from dispatch.private_files import read_private_file
    from dispatch.settings import load_settings

    try:
        data = read_private_file(Path(file), max_bytes=_BUNDLE_MAX_BYTES)
    except FileNotFoundError as error:
        raise KeysRefused(f"{file} does not exist", code="missing") from error
    passphrase = _read_passphrase(passphrase_file, by_stdin=passphrase_stdin, confirm=False)
    new = import_keys(load_settings().places.keys_dir, data, passphrase)
    if as_json:
        print_document({"new": new})
        return
    click.echo(f"took in {len(new)} files" if new else "everything was here already")


def _read_passphrase(file: str | None, *, by_stdin: bool, confirm: bool) -> str:
    from dispatch.private_files import read_private_file

    if file is not None and by_stdin:
        problem = Problem("--passphrase-stdin", "stands beside --passphrase-file", "name one")
        raise InvalidRequest([problem])
    if file is not None:
        try:
            line = read_private_file(Path(file), max_bytes=_LINE_MAX_BYTES)
        except FileNotFoundError as error:
            raise KeysRefused(f"{file} does not exist", code="missing") from error
    elif by_stdin:
        line = sys.stdin.buffer.readline(_LINE_MAX_BYTES)
    else:
        asked: str = click.prompt(
            "Passphrase", hide_input=True, confirmation_prompt=confirm, err=True
        )
        return asked
    try:
        return line.splitlines()[0].decode("utf-8") if line else ""
    except UnicodeDecodeError as error:
        problem = Problem("passphrase", "is not UTF-8", "write it as UTF-8")
        raise InvalidRequest([problem]) from error
