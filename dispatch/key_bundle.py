"""A sender's or a host's keys, or both, in one file under a passphrase: a backup, or a move.

The recipe of the cryptography library: scrypt makes a key of the passphrase, Fernet encrypts with
it and authenticates. The file is as good as the keys once somebody knows the passphrase. Import
adds what is missing and replaces nothing.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from pathlib import Path
from typing import Any, Final

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from contracts.errors import InvalidRequest, KeysRefused
from contracts.strict_json import parse_strict_object
from dispatch.key_records import Grant, Granted, Master, read_record
from dispatch.private_files import (
    check_private_folder,
    make_private_folder,
    read_private_file,
    write_private_file,
)
from dispatch.revocations import read_revocations

PASSPHRASE_MIN_CHARS: Final = 12
_SCRYPT_N: Final = 2**17  # with r 8, p 1: 128 MiB and a third of a second for each guess (OWASP)
_SALT_BYTES: Final = 16
_KIND: Final = "fleet-dispatch-keys"
_FIELDS: Final = {"v", "record", "kdf", "n", "salt", "data"}
_SHAPES: Final[dict[str, type[Master | Granted | Grant]]] = {
    "master": Master,
    "granted": Granted,
    "grant": Grant,
}
_FILE_NAME: Final = re.compile(r"(master|granted|grant|revoked)(\.[A-Za-z0-9._-]{1,200})?\.json")


def export_keys(keys_dir: Path, passphrase: str) -> bytes:
    """Return every key file of `keys_dir`, encrypted under `passphrase`.

    Raises KeysRefused for a file that is not ours alone or says nothing clear, and InvalidRequest
    for a passphrase that is too short.
    """
    if len(passphrase) < PASSPHRASE_MIN_CHARS:
        raise _short()
    check_private_folder(keys_dir)
    files = {
        path.name: read_private_file(path).decode("utf-8")
        for path in sorted(keys_dir.glob("*.json"))
        if _FILE_NAME.fullmatch(path.name)
    }
    _check_files(files)
    read_revocations(keys_dir)
    salt = secrets.token_bytes(_SALT_BYTES)
    token = Fernet(_key(passphrase, salt)).encrypt(json.dumps(files).encode())
    document = {"v": 1, "record": _KIND, "kdf": "scrypt", "n": _SCRYPT_N}
    document |= {"salt": base64.b64encode(salt).decode(), "data": token.decode()}
    return json.dumps(document, indent=2).encode() + b"\n"


def import_keys(keys_dir: Path, data: bytes, passphrase: str) -> list[str]:
    """Take the exported keys in `data` in; return the names of the files that are new.

    All or nothing: raises KeysRefused, before anything is written, for a wrong passphrase, a file
    that was altered, a record that says nothing clear, and a key that stands here otherwise.
    """
    files = _opened(data, passphrase)
    _check_files(files)
    make_private_folder(keys_dir)
    check_private_folder(keys_dir)
    new: list[str] = []
    for name, text in files.items():
        try:
            held = read_private_file(keys_dir / name)
        except FileNotFoundError:
            new.append(name)
            continue
        if held != text.encode() and not name.startswith("granted."):
            raise KeysRefused(
                f"{keys_dir / name} stands here and says something else",
                code="exists",
                remedy="decide which one holds, and move the other away",
            )
    for name in sorted(new, key=lambda item: not item.startswith("revoked")):
        write_private_file(keys_dir / name, files[name].encode(), replace=False)
    return sorted(new)


def _opened(data: bytes, passphrase: str) -> dict[str, str]:
    remedy = "name a file that keys export wrote"
    try:
        document: dict[str, Any] = parse_strict_object(data, field="the file")
        whole = document.keys() == _FIELDS and document["record"] == _KIND and document["v"] == 1
        # One cost alone: a file must not choose how much memory a guess takes here.
        if not whole or (document["kdf"], document["n"]) != ("scrypt", _SCRYPT_N):
            raise KeysRefused("the file is no export of keys", code="malformed", remedy=remedy)
        salt = base64.b64decode(str(document["salt"]), validate=True)
        token = str(document["data"]).encode()
    except (InvalidRequest, ValueError) as error:
        raise KeysRefused("the file is malformed", code="malformed", remedy=remedy) from error
    try:
        plain = Fernet(_key(passphrase, salt)).decrypt(token)
    except InvalidToken as error:
        raise KeysRefused(
            "the passphrase is another one, or the file was altered", code="passphrase"
        ) from error
    files = parse_strict_object(plain, field="the export")
    return {name: str(text) for name, text in files.items()}


def _check_files(files: dict[str, str]) -> None:
    """Hold each record against its shape. Raises KeysRefused."""
    for name, text in files.items():
        if _FILE_NAME.fullmatch(name) is None:
            raise KeysRefused("the export holds a file that is no key", code="malformed")
        shape = _SHAPES.get(name.partition(".")[0])
        if shape is not None:
            read_record(text.encode(), shape, name)


def _key(passphrase: str, salt: bytes) -> bytes:
    kdf = Scrypt(salt=salt, length=32, n=_SCRYPT_N, r=8, p=1)
    return base64.urlsafe_b64encode(kdf.derive(passphrase.encode("utf-8")))


def _short() -> KeysRefused:
    return KeysRefused(
        f"the passphrase is shorter than {PASSPHRASE_MIN_CHARS} characters",
        code="passphrase",
        remedy="take several words",
    )
