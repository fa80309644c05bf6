"""The files of the keys folder: making an identity, noting and accepting grants, reading all.

One record, one file, written in one step: nothing here needs a lock. Every file is checked to be
its owner's alone each time it is read.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

from contracts import limits
from contracts.clock import Clock
from contracts.errors import KeysRefused
from contracts.ids import checked_name
from contracts.naming import host_audience
from dispatch.key_records import (
    Grant,
    Granted,
    Master,
    dump_record,
    encode_secret,
    read_record,
    record_name,
)
from dispatch.keys import DEFAULT_ALGORITHM, MASTER_DAYS, RESULT, SECRET_BYTES, KeyId
from dispatch.private_files import (
    check_private_folder,
    make_private_folder,
    read_private_file,
    write_private_file,
)

_DAY_S: Final = 86_400

_R = TypeVar("_R", Master, Granted, Grant)


def create_sender(
    keys_dir: Path, name: str, clock: Clock, *, algorithm: str = DEFAULT_ALGORITHM
) -> bool:
    """Make the identity of sender `name` with a first master; say whether it is new.

    An existing one is left as it is. Raises KeysRefused or Unavailable.
    """
    checked_name(name, "sender.name")
    make_private_folder(keys_dir)
    check_private_folder(keys_dir)
    master = new_master(name, 1, algorithm=algorithm, days=MASTER_DAYS, now=clock.wall())
    if any(item.iss == name for item in read_records(keys_dir, Master)):
        return False
    try:
        write_private_file(keys_dir / record_name(master), dump_record(master), replace=False)
    except FileExistsError:
        return False  # another init was faster: its master stands
    return True


def new_master(name: str, generation: int, *, algorithm: str, days: int, now: float) -> Master:
    """Return a generation of sender `name` with a new random secret; writes nothing."""
    return Master(
        iss=name,
        generation=generation,
        nbf=int(now) - limits.SKEW_S,
        exp=int(now) + days * _DAY_S,
        alg=algorithm,
        secret=encode_secret(secrets.token_bytes(SECRET_BYTES)),
    )


def record_grant(keys_dir: Path, grant: Grant, *, held_at: int | None = None) -> None:
    """Note on the sender that `grant` was given, in place of an earlier one to the same host of
    the same generation; `held_at` when it is known to have been taken in (Unix seconds)."""
    fields = grant.model_dump(exclude={"record", "keys"})
    write_note(keys_dir, Granted(**fields, heldAt=held_at))


def write_note(keys_dir: Path, note: Granted) -> None:
    """Write the sender's note of a grant, in place of what was there."""
    write_private_file(keys_dir / record_name(note), dump_record(note), replace=True)


def accept_grant(keys_dir: Path, data: bytes, host: str, *, file: str, clock: Clock) -> Grant:
    """Take the grant in `data` in for `host` and return it.

    Raises KeysRefused when it is malformed, for another host, expired, or from a stranger who uses
    the name of a sender that this host knows already. `file` stands in messages only.
    """
    grant = read_record(data, Grant, file)
    if grant.host != host:
        raise KeysRefused(
            f"{file} is for host {grant.host}, and this is {host}",
            code="foreign",
            remedy="grant to this name, or set [host] name in config.toml",
        )
    if not grant.is_valid_at(clock.wall()):
        raise KeysRefused(f"{file} is not valid now", code="expired", remedy="grant again")
    make_private_folder(keys_dir)
    check_private_folder(keys_dir)
    for held in read_records(keys_dir, Grant):
        if (held.iss, held.host, held.generation) == (grant.iss, host, grant.generation):
            _check_same_sender(held, grant, keys_dir)
    write_private_file(keys_dir / record_name(grant), dump_record(grant), replace=True)
    return grant


def _check_same_sender(held: Grant, offered: Grant, keys_dir: Path) -> None:
    """The result key depends on the sender's master and this host alone: it tells senders apart."""
    kid = KeyId(held.iss, held.generation, RESULT, host_audience(held.host)).text
    one, other = ({key.kid: key for key in grant.keys}[kid] for grant in (held, offered))
    is_same = secrets.compare_digest(one.key_bytes, other.key_bytes)
    if not is_same or one.alg != other.alg:
        raise KeysRefused(
            f"another sender called {held.iss} was accepted here before",
            code="foreign",
            remedy=f"if that is the same person with new keys, remove "
            f"{keys_dir / record_name(held)} first",
        )


def read_records(keys_dir: Path, shape: type[_R]) -> Iterator[_R]:
    """Yield every record of that shape in `keys_dir`. KeysRefused for one not ours alone."""
    prefix = str(shape.model_fields["record"].default)
    for path in sorted(keys_dir.glob(f"{prefix}.*.json")):
        yield read_record(read_private_file(path), shape, str(path))
