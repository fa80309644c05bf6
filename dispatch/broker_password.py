"""The broker's password: from a private file into the URL, and never from an argument list.

Every user of a machine sees the arguments of every process. So a password stands in a file that
is its owner's alone, or in the environment; a flag that holds one is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from contracts.errors import InvalidRequest, KeysRefused, Problem
from dispatch.broker_url import has_password, with_password
from dispatch.private_files import read_private_file

_FIELD: Final = "fleet.password_file"
_REMEDY: Final = "put it into [fleet] password_file, config.toml or FLEET_DISPATCH_REDIS_URL"


def url_with_password_of(url: str, password_file: str) -> str:
    """Return `url` with the password that stands in `password_file`; a URL that has one keeps it.

    Raises InvalidRequest when the file is not absolute, not there, not private or empty.
    """
    path = Path(password_file).expanduser()
    if not path.is_absolute():
        raise _refusal("is not absolute", "give a full path")
    try:
        password = read_private_file(path).decode("utf-8").strip("\r\n")
    except KeysRefused as error:
        raise _refusal(error.message, error.remedy or "chmod 600 it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _refusal(f"cannot be read: {path}", "one line, the password alone") from error
    if not password or "\n" in password:
        raise _refusal(f"holds no single line: {path}", "one line, the password alone")
    try:
        return with_password(url, password)
    except ValueError:
        return url  # no URL: the check of the URL itself says so


def check_flag_holds_no_password(url: str, flag: str) -> None:
    """Raise InvalidRequest when `url`, which was given as `flag`, holds a password."""
    if has_password(url):
        problem = "holds a password, and every user of this machine can read arguments"
        raise InvalidRequest([Problem(flag, problem, _REMEDY)])


def _refusal(message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest([Problem(_FIELD, message, remedy)])
