"""A new generation of a sender's keys, with a grant for every host that has one.

The old generation signs beside the new one until each host is seen to hold it, and then by itself
no more. Written so that a crash in between leaves a fleet that works: the new master first, which
signs beside the old one, then the grants, which `keys grant` can write again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts import limits
from contracts.clock import Clock
from contracts.errors import Refused
from dispatch.grants import derive_grant
from dispatch.key_records import Grant, Master, dump_record, record_name
from dispatch.key_store import accept_grant, new_master, read_records, record_grant
from dispatch.private_files import check_private_folder, make_private_folder, write_private_file
from dispatch.rotation import hosts_behind
from dispatch.sender_keyring import SenderKeyring


@dataclass(frozen=True, slots=True)
class Rotated:
    """A new generation: its grants, and where each was written ("" for this machine's own)."""

    master: Master
    grants: tuple[tuple[Grant, str], ...]


def rotate(
    ring: SenderKeyring,
    *,
    algorithm: str | None,
    out: Path,
    days: int,
    grant_days: int,
    own_host: str,
    clock: Clock,
) -> Rotated:
    """Make a new generation, of `algorithm` (None: as before), and write its grants into `out`.

    The grant of `own_host` is taken in at once when this machine has one already. Raises Refused
    (`unfinished`) when more generations would have to sign than an envelope has room for, and
    (`exists`) when a file is in the way.
    """
    keys_dir, now = ring.keys_dir, clock.wall()
    _check_room(ring, now)
    newest = ring.masters[-1]
    master = new_master(
        ring.name,
        newest.generation + 1,
        algorithm=algorithm or newest.alg,
        days=days,
        now=now,
    )
    grants = [
        derive_grant(master, host, sorted(held), days=grant_days, now=now)
        for host, held in sorted(_lanes_by_host(ring, now).items())
    ]
    mine = {item.host for item in read_records(keys_dir, Grant) if item.iss == ring.name}
    files = {
        grant.host: out / f"{grant.host}.grant.json"
        for grant in grants
        if grant.host not in mine or grant.host != own_host
    }
    if files:
        _check_out(out, list(files.values()))
    try:
        write_private_file(keys_dir / record_name(master), dump_record(master), replace=False)
    except FileExistsError as error:
        raise Refused(
            f"another rotation made generation {master.generation} just now",
            code="exists",
            remedy="look at it with `fleet-dispatch keys list`",
        ) from error
    for grant in grants:
        _hand_over(keys_dir, grant, files.get(grant.host), clock)
    ring.look_again()
    return Rotated(master, tuple((grant, str(files.get(grant.host, ""))) for grant in grants))


def _lanes_by_host(ring: SenderKeyring, now: float) -> dict[str, set[str]]:
    """Return what each host was granted that may still be granted anything. A generation that is
    revoked counts here: its hosts need the next one the most."""
    lanes: dict[str, set[str]] = {}
    for note in ring.grants:
        if note.is_valid_at(now) and not ring.is_host_revoked(note.host):
            lanes.setdefault(note.host, set()).update(note.lanes)
    return lanes


def _hand_over(keys_dir: Path, grant: Grant, file: Path | None, clock: Clock) -> None:
    if file is None:
        accept_grant(keys_dir, dump_record(grant), grant.host, file="the new grant", clock=clock)
        record_grant(keys_dir, grant, held_at=int(clock.wall()))
        return
    write_private_file(file, dump_record(grant), replace=False)
    record_grant(keys_dir, grant)


def _check_room(ring: SenderKeyring, now: float) -> None:
    """Refuse a rotation on top of so many unfinished ones that a host would be left out."""
    behind = {
        master.generation: hosts_behind(master.generation, ring.living_grants, now=now)
        for master in ring.masters[:-1]
        if master.is_valid_at(now)
    }
    signing = 2 + sum(1 for hosts in behind.values() if hosts)
    if signing > limits.SIGNATURES_MAX:
        names = sorted({host for hosts in behind.values() for host in hosts})
        raise Refused(
            f"hosts {', '.join(names)} do not hold earlier generations yet",
            code="unfinished",
            remedy="carry their newest grants over, or fleet-dispatch keys revoke --host HOST",
        )


def _check_out(out: Path, files: Sequence[Path]) -> None:
    make_private_folder(out)
    check_private_folder(out)
    for file in files:
        if file.exists():
            raise Refused(f"{file} exists", code="exists", remedy="name another folder with --out")
