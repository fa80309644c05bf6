"""`fleet-dispatch init`: one machine, one step: sender, host, grant, settings, policy.

Changes nothing that is there already, and says so. An option that contradicts what is there is an
error: it is never dropped.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from contracts.clock import Clock, SystemClock
from contracts.errors import InvalidRequest, KeysRefused, Problem
from dispatch.algorithms import ALGORITHMS
from dispatch.commands.agents import agent_words, find_agents
from dispatch.commands.boundary import boundary
from dispatch.commands.host_files import write_host_config, write_host_policy
from dispatch.commands.output import json_option, print_document
from dispatch.keys import DEFAULT_ALGORITHM

if TYPE_CHECKING:
    from dispatch.settings import Settings

DEFAULT_LANE: Final = "MAIN"

_EXAMPLE: Final = """\b
Example:
  fleet-dispatch init --repo-root ~/src --lanes MAIN
"""


@click.command(epilog=_EXAMPLE)
@click.option("--sender", metavar="NAME", default=None, help="Who signs here; default: your login.")
@click.option(
    "--host", metavar="NAME", default=None, help="This host; default: the machine's name."
)
@click.option("--lanes", metavar="A,B", default=None, help=f"Lanes; default: {DEFAULT_LANE}.")
@click.option(
    "--repo-root",
    "roots",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    help="A folder whose repositories jobs may use; repeatable. Default: none.",
)
@click.option(
    "--algorithm",
    type=click.Choice(list(ALGORITHMS)),
    default=None,
    help=f"Of a new sender's keys; default: {DEFAULT_ALGORITHM}. See docs/keys.md.",
)
@json_option
@boundary
def command(
    *,
    sender: str | None,
    host: str | None,
    lanes: str | None,
    roots: tuple[str, ...],
    algorithm: str | None,
    as_json: bool,
) -> None:
    """Set this machine up as sender and host, with keys, settings and a policy.

    Running it again changes nothing.
    """
    from dispatch.settings import load_settings

    wanted = None if lanes is None else _read_lanes(lanes)
    flags = {"sender.name": sender, "host.name": host, "host.lanes": wanted}
    settings = load_settings(flags=flags)
    _refuse_contradictions(flags, roots, settings)
    _refuse_another_algorithm(settings, algorithm)
    made = _set_up(settings, roots, algorithm or DEFAULT_ALGORITHM, SystemClock())
    agents = find_agents()
    document = {
        "sender": settings.sender_name,
        "host": settings.host_name,
        "lanes": list(_lanes(settings)),
        "changed": any(made.values()),
        "made": sorted(name for name, new in made.items() if new),
        "configFile": str(settings.places.config_file),
        "policyFile": str(settings.places.policy_file),
        "repoRoots": _roots_in_policy(settings),
        "agents": agents,
    }
    if as_json:
        print_document(document)
    else:
        _tell(document, agents)


def _refuse_another_algorithm(settings: Settings, algorithm: str | None) -> None:
    """Raise InvalidRequest when the sender is there with keys of another algorithm."""
    from dispatch.key_records import Master
    from dispatch.key_store import read_records

    mine = [
        item
        for item in read_records(settings.places.keys_dir, Master)
        if item.iss == settings.sender_name
    ]
    if algorithm and mine and algorithm != max(mine, key=lambda item: item.generation).alg:
        problem = Problem("--algorithm", "is another one than that of the keys", "keys rotate")
        raise InvalidRequest([problem])


def _set_up(
    settings: Settings, roots: Sequence[str], algorithm: str, clock: Clock
) -> dict[str, bool]:
    """Make what is missing; return what was made."""
    from dispatch.key_store import create_sender
    from dispatch.private_files import make_private_folder

    places, lanes = settings.places, _lanes(settings)
    make_private_folder(places.config_dir)
    make_private_folder(places.state_dir)
    made = {
        "config.toml": write_host_config(
            places.config_file, host=settings.host_name, lanes=lanes, sender=settings.sender_name
        ),
        "policy.toml": write_host_policy(
            places.policy_file, sender=settings.sender_name, roots=roots, validate="any"
        ),
        "sender identity": create_sender(
            places.keys_dir, settings.sender_name, clock, algorithm=algorithm
        ),
    }
    made["grant to this host"] = _grant_to_self(settings, lanes, clock)
    return made


def _grant_to_self(settings: Settings, lanes: Sequence[str], clock: Clock) -> bool:
    from dispatch.key_records import dump_record
    from dispatch.key_store import accept_grant, record_grant
    from dispatch.keyring import SenderKeyring

    keys, host = settings.places.keys_dir, settings.host_name
    sender = SenderKeyring.load(keys, settings.sender_name, clock)
    if sender.lanes_of(host) == frozenset(lanes) and _is_accepted(settings, lanes, clock):
        return False
    grant = sender.create_grant(host, lanes)
    accept_grant(keys, dump_record(grant), host, file="the grant to this host", clock=clock)
    record_grant(keys, grant)
    return True


def _is_accepted(settings: Settings, lanes: Sequence[str], clock: Clock) -> bool:
    from dispatch.keyring import HostKeyring

    try:
        ring = HostKeyring.load(settings.places.keys_dir, settings.host_name, clock)
    except KeysRefused as error:
        if error.code != "missing":
            raise
        return False
    return any(
        grant.iss == settings.sender_name and set(grant.lanes) == set(lanes)
        for grant in ring.grants
    )


def _read_lanes(text: str) -> tuple[str, ...]:
    names = tuple(item.strip() for item in text.split(","))
    if len(set(names)) != len(names):
        raise InvalidRequest([Problem("--lanes", "names a lane twice", "each lane once: A,B")])
    return names


def _lanes(settings: Settings) -> tuple[str, ...]:
    return tuple(dict.fromkeys(settings.host.lanes)) or (DEFAULT_LANE,)


def _refuse_contradictions(flags: dict[str, Any], roots: Sequence[str], settings: Settings) -> None:
    """Raise InvalidRequest when an option says other than the files that stay as they are."""
    from dispatch.settings import load_settings

    problems: list[Problem] = []
    places = settings.places
    if places.config_file.exists():
        held = load_settings()
        current = {
            "sender.name": held.sender_name,
            "host.name": held.host_name,
            "host.lanes": held.host.lanes,
        }
        problems += [
            Problem(key, f"is set otherwise in {places.config_file}", "change it there")
            for key, value in flags.items()
            if value is not None and value != current[key]
        ]
    if places.policy_file.exists():
        known = _roots_in_policy(settings)
        problems += [
            Problem("--repo-root", f"is not in {places.policy_file}", "add it to repo_roots there")
            for root in roots
            if root not in known
        ]
    if problems:
        raise InvalidRequest(problems)


def _roots_in_policy(settings: Settings) -> list[str]:
    """Return the roots that the policy names for this sender; whether it holds is the host's own
    question, asked when it listens."""
    from dispatch.private_files import read_private_file

    try:
        data = tomllib.loads(read_private_file(settings.places.policy_file).decode("utf-8"))
        roots = data["senders"][settings.sender_name]["repo_roots"]
    except (ValueError, LookupError, TypeError, OSError):
        return []
    return [root for root in roots if isinstance(root, str)] if isinstance(roots, list) else []


def _tell(document: dict[str, Any], agents: dict[str, str]) -> None:
    if document["changed"]:
        click.echo(f"made: {', '.join(document['made'])}")
    else:
        click.echo("everything is there already; nothing was changed")
    lanes = ", ".join(document["lanes"])
    click.echo(f"sender {document['sender']}, host {document['host']}, lanes {lanes}")
    click.echo(f"settings {document['configFile']}")
    click.echo(f"policy   {document['policyFile']}")
    click.echo(f"agents   {agent_words(agents)}")
    if not document["repoRoots"]:
        click.echo(
            "no repository may be used by jobs yet: name the folders that hold yours in repo_roots "
            f'in {document["policyFile"]}, for example repo_roots = ["/home/me/src"]'
        )
    click.echo("next: fleet-dispatch broker, and in another terminal")
    click.echo(f"      fleet-dispatch listen --lane {_first(document)}")


def _first(document: dict[str, Any]) -> str:
    lanes: list[str] = document["lanes"]
    return lanes[0]
