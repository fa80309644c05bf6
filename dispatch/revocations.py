"""What is revoked on this machine: single keys, or all keys of a host, a sender or a generation.

One revocation, one file beside the keys (`revoked.DIGEST.json`), written once and never changed:
two revocations at one time lose nothing. A list by hand, `revoked.json` (`{"kids": […]}`), is
honoured too. Never takes a revocation back.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from contracts.errors import InvalidRequest, KeysRefused
from contracts.naming import host_audience
from contracts.strict_json import parse_strict_object
from dispatch.keys import KeyId
from dispatch.private_files import read_private_file, write_private_file

_BY_HAND: Final = "revoked.json"


class Revocation(BaseModel):
    """Keys that count no more: one by its id, or all that every given part fits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    v: Literal[1] = 1
    record: Literal["revoked"] = "revoked"
    kid: StrictStr = ""
    host: StrictStr = ""
    sender: StrictStr = ""
    generation: Annotated[StrictInt, Field(ge=0, le=999_999)] = 0
    at: StrictInt = 0  # Unix seconds

    def covers(self, key_id: KeyId) -> bool:
        """Say whether `key_id` is revoked by this."""
        if self.kid:
            return self.kid == key_id.text
        return (
            self.sender in ("", key_id.iss)
            and self.generation in (0, key_id.generation)
            and (not self.host or key_id.aud == host_audience(self.host))
        )

    @property
    def words(self) -> str:
        """Return what is revoked, for people."""
        if self.kid:
            return self.kid
        named = (("host", self.host), ("sender", self.sender), ("generation", self.generation))
        return ", ".join(f"{name} {value}" for name, value in named if value)


@dataclass(frozen=True, slots=True)
class Revocations:
    """All revocations of one folder."""

    items: tuple[Revocation, ...] = ()

    def covers(self, key_id: KeyId) -> bool:
        """Say whether a key is revoked."""
        return any(item.covers(key_id) for item in self.items)

    def covers_generation(self, sender: str, generation: int) -> bool:
        """Say whether every key of a generation is revoked, whomever it is for."""
        return any(
            not item.kid
            and not item.host
            and item.sender in ("", sender)
            and item.generation in (0, generation)
            for item in self.items
        )


def revoke(keys_dir: Path, revocation: Revocation) -> bool:
    """Write `revocation` down; say whether it is new. Raises Unavailable when the disk says no."""
    parts = (revocation.kid, revocation.host, revocation.sender, str(revocation.generation))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    data = json.dumps(revocation.model_dump(mode="json"), indent=2).encode() + b"\n"
    try:
        write_private_file(keys_dir / f"revoked.{digest}.json", data, replace=False)
    except FileExistsError:
        return False
    return True


def read_revocations(keys_dir: Path) -> Revocations:
    """Return what is revoked here; KeysRefused for a file that says nothing clear."""
    found = [_read(path) for path in sorted(keys_dir.glob("revoked.*.json"))]
    return Revocations((*found, *_read_by_hand(keys_dir / _BY_HAND)))


def _read(path: Path) -> Revocation:
    try:
        data = parse_strict_object(read_private_file(path), field=path.name)
        found = Revocation.model_validate(data)
    except (InvalidRequest, ValidationError) as error:
        raise KeysRefused(
            f"{path} is no revocation", code="malformed", remedy="restore it, or revoke again"
        ) from error
    if not found.words:
        raise KeysRefused(f"{path} revokes nothing", code="malformed", remedy="revoke again")
    return found


def _read_by_hand(path: Path) -> list[Revocation]:
    try:
        data = read_private_file(path)
    except FileNotFoundError:
        return []
    try:
        kids = parse_strict_object(data, field=_BY_HAND).get("kids")
    except InvalidRequest as error:
        raise KeysRefused(f"{path}: {error}", code="malformed") from error
    if not isinstance(kids, list) or not all(isinstance(kid, str) and kid for kid in kids):
        raise KeysRefused(f"{path} needs a list of key ids in `kids`", code="malformed")
    return [Revocation(kid=str(kid)) for kid in kids]
