"""The values of a request's fields, whatever its kind: text, seconds, a command.

Owns what every kind asks of such a value. Pure; no message repeats a value.
"""

from __future__ import annotations

from collections.abc import Mapping

from contracts import limits
from contracts.errors import Problem


def text_problems(name: str, value: object, *, required: bool) -> list[Problem]:
    """Return what keeps `value` from being a text with something in it."""
    absent = "give a value" if required else "leave the field out"
    if value is None:
        return [Problem(name, "is null", absent)]
    if not isinstance(value, str):
        return [Problem(name, f"is {type_name(value)}", "give a string")]
    if _has_lone_surrogate(value):
        return [Problem(name, "has half a character (a lone surrogate)", "send whole characters")]
    return [] if value.strip() else [Problem(name, "is empty", absent)]


def timeout_problems(value: object, *, used: str) -> list[Problem]:
    """Return what keeps `value` from being whole seconds; `used` names those that are not clamped,
    as in `60 to 14400`."""
    if isinstance(value, bool) or not isinstance(value, int):
        remedy = f"give whole seconds as a number; {used} are used as they are"
        return [Problem("timeoutSec", f"is {type_name(value)}", remedy)]
    if abs(value) > limits.JSON_INT_MAX:
        remedy = f"whole seconds, at most {limits.TIMEOUT_MAX_S} are used"
        return [Problem("timeoutSec", "is beyond 2^53-1, which JSON cannot carry", remedy)]
    return []


def command_problems(name: str, value: str) -> list[Problem]:
    """Return what keeps `value` from being one argument that a shell takes."""
    if "\0" in value:
        return [Problem(name, "has a NUL character", "send a shell command")]
    size = len(value.encode("utf-8"))
    if size > limits.COMMAND_MAX_BYTES:
        remedy = f"at most {limits.COMMAND_MAX_BYTES} bytes; put it in a script of the repository"
        return [Problem(name, f"is {size} bytes", remedy)]
    return []


def as_problems(name: str, message: str | None, remedy: str) -> list[Problem]:
    """Return the problem `message` of the field `name`, none when there is no message."""
    return [] if message is None else [Problem(name, message, remedy)]


def type_name(value: object) -> str:
    """Return what `value` is, in JSON's words."""
    kinds = ((bool, "true or false"), (int, "a number"), (float, "a number with a fraction"))
    for kind, name in (*kinds, (str, "a string"), (Mapping, "an object"), (list, "a list")):
        if isinstance(value, kind):
            return name
    return "of another type"


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
