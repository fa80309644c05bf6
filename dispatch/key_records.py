"""What stands in key files: a sender's master, a sender's note of a grant, and the grant itself.

Strict: an unknown field is refused, and so is a record whose parts contradict each other. Pure:
files are read and written by the keyring. Messages never hold a secret.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Annotated, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from contracts import limits
from contracts.errors import InvalidRequest, KeysRefused
from contracts.ids import is_name
from contracts.naming import host_audience, lane_audience
from contracts.strict_json import parse_strict_object
from dispatch.algorithms import ALGORITHMS, HMAC_SHA256
from dispatch.keys import BY_HOST, BY_SENDER, JOB, RESULT, SECRET_BYTES, KeyId

# What a host signs may come back this much later than its last job could have started: a job lives
# 7 days at most and its result is kept for 7 more.
RESULT_GRACE_S: Final = limits.JOB_TTL_MAX_S + limits.RESULT_TTL_S


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    v: Literal[1] = 1
    iss: StrictStr
    generation: Annotated[StrictInt, Field(ge=1, le=999_999)]
    nbf: StrictInt  # Unix seconds: usable from
    exp: StrictInt  # Unix seconds: usable until

    def is_valid_at(self, now: float, *, grace_s: int = 0) -> bool:
        """Say whether the record may be used at `now` (Unix seconds)."""
        return self.nbf <= now < self.exp + grace_s

    def names(self) -> tuple[str, ...]:
        """Return every name in the record."""
        return (self.iss,)

    def held_keys(self) -> tuple[tuple[str, str], ...]:
        """Return algorithm and encoded bytes of every key in the record."""
        return ()

    def contradiction(self) -> str:
        """Return what is wrong between the fields, "" when nothing is."""
        if not all(is_name(name) for name in self.names()):
            return "holds something that is not a name"
        for algorithm, encoded in self.held_keys():
            if algorithm not in ALGORITHMS:
                return "holds a key of an algorithm that this version does not know"
            if len(_decoded(encoded)) != SECRET_BYTES:
                return f"holds a key that is not {SECRET_BYTES} bytes"
        if len({algorithm for algorithm, _ in self.held_keys()}) > 1:
            return "holds keys of two algorithms"
        return ""


_R = TypeVar("_R", bound=_Record)


class Master(_Record):
    """One generation of a sender's own secret. Never leaves the sender."""

    record: Literal["master"] = "master"
    alg: StrictStr
    secret: Annotated[StrictStr, Field(repr=False)]

    @property
    def secret_bytes(self) -> bytes:
        """Return the 32 bytes."""
        return _decoded(self.secret)

    def held_keys(self) -> tuple[tuple[str, str], ...]:
        """See the base."""
        return ((self.alg, self.secret),)

    def key_id(self, purpose: str, aud: str) -> KeyId:
        """Return the id of a key derived from this master."""
        return KeyId(self.iss, self.generation, purpose, aud)


class Granted(_Record):
    """The sender's note that a host was given keys for these lanes. No secret in it."""

    record: Literal["granted"] = "granted"
    host: StrictStr
    lanes: tuple[StrictStr, ...]
    grantedAt: StrictInt
    heldAt: StrictInt | None = None  # Unix seconds: when the host was seen to hold them

    def names(self) -> tuple[str, ...]:
        """See the base."""
        return (self.iss, self.host, *self.lanes)


class GrantedKey(BaseModel):
    """One derived key of a grant: a secret, or the public half where that is enough to check."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kid: StrictStr
    alg: StrictStr
    secret: Annotated[StrictStr | None, Field(repr=False)] = None
    public: StrictStr | None = None

    @property
    def key_bytes(self) -> bytes:
        """Return the 32 bytes, whichever they are."""
        return _decoded(self.secret or self.public or "")

    def is_a_half_for(self, purpose: str) -> bool:
        """Say whether it is what a host may hold for `purpose`, and nothing more."""
        only_checked = purpose in BY_SENDER and self.alg != HMAC_SHA256
        wanted, other = (self.public, self.secret) if only_checked else (self.secret, self.public)
        return wanted is not None and other is None


class Grant(_Record):
    """The file that `keys grant` writes and a host takes in: derived keys for it and its lanes."""

    record: Literal["grant"] = "grant"
    host: StrictStr
    lanes: tuple[StrictStr, ...]
    grantedAt: StrictInt
    keys: tuple[GrantedKey, ...]

    def names(self) -> tuple[str, ...]:
        """See the base."""
        return (self.iss, self.host, *self.lanes)

    def held_keys(self) -> tuple[tuple[str, str], ...]:
        """See the base."""
        return tuple((key.alg, key.secret or key.public or "") for key in self.keys)

    def contradiction(self) -> str:
        """See the base."""
        kids, wanted = [key.kid for key in self.keys], self.wanted_key_ids()
        if kids not in (list(wanted), self._first_key_ids()):
            return "holds other keys than its host and lanes say"
        wrong = super().contradiction()
        if not wrong and not all(key.is_a_half_for(wanted[key.kid].purpose) for key in self.keys):
            return "holds a half of a key that a host has no use for"
        return wrong

    def wanted_key_ids(self) -> dict[str, KeyId]:
        """Return the ids that a grant to this host and these lanes holds: no more and no less."""
        host, lanes = host_audience(self.host), [lane_audience(lane) for lane in self.lanes]
        ids = [self._key_id(purpose, host) for purpose in (*BY_SENDER, *BY_HOST)]
        ids += [self._key_id(purpose, lane) for lane in lanes for purpose in BY_SENDER]
        return {key_id.text: key_id for key_id in ids}

    def missing_purposes(self) -> frozenset[str]:
        """Return what it holds no key for: an early grant could check jobs and sign results."""
        held, wanted = {key.kid for key in self.keys}, self.wanted_key_ids()
        return frozenset(key_id.purpose for kid, key_id in wanted.items() if kid not in held)

    def _first_key_ids(self) -> list[str]:
        """Return the ids that a grant held when there were jobs and results alone."""
        host, lanes = host_audience(self.host), [lane_audience(lane) for lane in self.lanes]
        ids = [self._key_id(JOB, host), self._key_id(RESULT, host)]
        return [key_id.text for key_id in (*ids, *(self._key_id(JOB, lane) for lane in lanes))]

    def _key_id(self, purpose: str, aud: str) -> KeyId:
        return KeyId(self.iss, self.generation, purpose, aud)


def encode_secret(secret: bytes) -> str:
    """Return a secret as it stands in a record."""
    return base64.b64encode(secret).decode("ascii")


def dump_record(record: Master | Granted | Grant) -> bytes:
    """Return the bytes of a key file."""
    data = record.model_dump(mode="json", exclude_none=True)
    return json.dumps(data, indent=2).encode() + b"\n"


def read_record(data: bytes, shape: type[_R], file: str) -> _R:
    """Return the record in `data`.

    Raises KeysRefused naming `file` when it is anything but a consistent record of that shape.
    """
    remedy = "restore it, or grant again"
    try:
        record = shape.model_validate(parse_strict_object(data, field=file))
    except (InvalidRequest, ValidationError) as error:
        fields = _fields(error)
        raise KeysRefused(f"{file} is malformed{fields}", code="malformed", remedy=remedy) from None
    problem = record.contradiction()
    if problem:
        raise KeysRefused(f"{file} {problem}", code="malformed", remedy=remedy)
    return record


def record_name(record: Master | Granted | Grant) -> str:
    """Return the file name of a record.

    The digest keeps names apart that differ only by case, on disks that do not.
    """
    names = [record.iss] if isinstance(record, Master) else [record.iss, record.host]
    digest = hashlib.sha256("\0".join(names).encode()).hexdigest()[:8]
    return ".".join([record.record, *names, str(record.generation), digest, "json"])


def _decoded(secret: str) -> bytes:
    try:
        return base64.b64decode(secret, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _fields(error: InvalidRequest | ValidationError) -> str:
    """Return the names of the wrong fields; never a value."""
    if isinstance(error, InvalidRequest):
        return ": " + ", ".join(problem.message for problem in error.problems)
    items = error.errors(include_url=False, include_input=False, include_context=False)
    return ": " + ", ".join(sorted({".".join(str(part) for part in item["loc"]) for item in items}))
