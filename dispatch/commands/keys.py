"""`fleet-dispatch keys`: one table of what can be done with keys. Shows no secret."""

from __future__ import annotations

import click

from dispatch.commands.keys_accept import accept
from dispatch.commands.keys_bundle import export_all, import_all
from dispatch.commands.keys_grant import grant
from dispatch.commands.keys_list import list_keys
from dispatch.commands.keys_revoke import revoke_keys
from dispatch.commands.keys_rotate import rotate_keys
from dispatch.commands.sub_verbs import SubVerbs


@click.group(
    cls=SubVerbs,
    epilog="""\b
Example, a second machine:
  fleet-dispatch keys grant GAMINGPC --lanes MAIN --out gamingpc.json
  scp -p gamingpc.json gamingpc:
  ssh gamingpc fleet-dispatch keys accept gamingpc.json --repo-root /home/me/src
""",
)
def command() -> None:
    """Grant, accept, rotate and revoke keys: a host can check jobs, and forge none for another."""


for _verb in (grant, accept, list_keys, rotate_keys, revoke_keys, export_all, import_all):
    command.add_command(_verb)
