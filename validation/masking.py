"""Does a shell command hide the exit code of a part of itself?

Owns the reading of a command as a shell would cut it: quotes, comments, operators. It only ever
raises doubts: a command that it cannot follow counts as masking, which costs a person's look and
nothing else. It must never run or change a command.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_TOKEN: Final = re.compile(
    r"""
      (?P<space> [ \t\r]+ | \\\r?\n )
    | (?P<comment> (?<![^\s;&|()]) \# [^\n]* )
    | (?P<redirect> [0-9]* (?: <<< | >> | << | &>> | &> | [<>]& | >\| | <> | [<>] ) )
    | (?P<operator> \n | && | \|\| | \|& | ;; | [;&|()] )
    | (?P<word> (?: \\. | '[^']*' | "(?:\\.|[^"\\])*" | [^\s;&|()<>'"\\] )+ )
    | (?P<broken> . )
    """,
    re.VERBOSE | re.DOTALL,
)

# Commands that end with 0 whatever happened before them.
_ALWAYS_SUCCEED: Final = frozenset({"true", ":", "echo", "printf", "$true", "rem", "Write-Host"})
# Commands that may stand before `;` without being a check themselves.
_SETTING_UP: Final = frozenset(
    {"cd", "export", "set", "unset", "source", ".", "ulimit", "umask", "pushd", "shopt", "alias"}
)
# Commands whose own exit code hides that of a substitution in their words.
_IGNORING_PARTS: Final = _ALWAYS_SUCCEED | frozenset(
    {"[", "[[", "test", "export", "local", "declare", "typeset", "readonly"}
)
# Exit codes that are surely no success: a number from 1 to 255, or that of what just failed.
_FAILING_CODE: Final = re.compile(
    r"[\"']?(?:0*[1-9][0-9]?|0*1[0-9]{2}|0*2[0-4][0-9]|0*25[0-5]|\$\?)[\"']?"
)
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
# Words before a command that pass its exit code on.
_PASSING_ON: Final = frozenset({"command", "builtin", "exec", "env", "nohup", "nice", "time"})
# A condition swallows its command's failure, whatever the shell was told.
_CONDITIONS: Final = frozenset({"if", "elif", "while", "until"})
# Commands that are asked as a condition, and are no check.
_ASKED: Final = frozenset({"[", "[[", "test", "command", "type", "which", "true", "false"})
# `X=$(a) b` ends with b's exit code.
_DROPPED_ASSIGNMENT: Final = re.compile(
    r"(?:^|[;&|\n(])\s*[A-Za-z_]\w*=(?:\"?\$\([^()]*\)\"?|`[^`]*`)[ \t]+[^\s;&|)#]"
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_NESTED_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class _Step:
    """One simple command and the operator that follows it ('' at the end)."""

    words: tuple[str, ...]
    then: str


def masks_exit_code(command: str, *, pipefail: bool = False) -> bool:
    """Say whether `command` may end with 0 though a part of it failed.

    `pipefail` says that the shell which will run it has that option switched on: then a pipe hides
    nothing.
    """
    return _masks(command, pipefail=pipefail, nested=0)


def _masks(command: str, *, pipefail: bool, nested: int) -> bool:
    steps = list(_steps(command))
    if _DROPPED_ASSIGNMENT.search(command):
        return True
    if not pipefail and any(step.then in ("|", "|&") for step in steps):
        return True
    return (
        any(_hides_by_itself(step, nested) for step in steps)
        or _recovers(steps)
        or _goes_on_after_a_failure(steps)
    )


def _steps(command: str) -> Iterator[_Step]:
    words: list[str] = []
    for match in _TOKEN.finditer(command):
        text = match.group()
        if match.lastgroup == "operator":
            # A closing bracket changes nothing: the operator after it counts for what is inside.
            if text == ")" or (text == "(" and not words):
                continue
            yield _Step(tuple(words), text)
            words = []
        elif match.lastgroup in ("word", "redirect", "broken") and text not in ("{", "}"):
            words.append(text)
    yield _Step(tuple(words), "")


def _hides_by_itself(step: _Step, nested: int) -> bool:
    words = step.words
    if not words:
        return False
    name = _command_name(words)
    if step.then == "&" or name in ("!", "trap", "coproc") or (name == "set" and "+o" in words):
        return True
    if any(word in ("'", '"', "\\") for word in words):
        return True  # a quote that is never closed: not readable
    if _drops_a_substitution(name, step) or _reads_its_script(name, words):
        return True
    inner = _inner_script(words)
    if inner is None:
        return False
    # A shell inside does not inherit pipefail.
    return nested >= _NESTED_MAX or _masks(inner, pipefail=False, nested=nested + 1)


def _command_name(words: tuple[str, ...]) -> str:
    """Return the command's own name, behind the words that pass its exit code on."""
    names = [_base_name(word) for word in words]
    return next((name for name in names if name not in _PASSING_ON), names[0])


def _reads_its_script(name: str, words: tuple[str, ...]) -> bool:
    """`bash <<< "a; b"` runs a script that is not followed here."""
    is_shell = name in _SHELLS or name in ("source", ".")
    return is_shell and any(word.startswith("<<") for word in words)


def _drops_a_substitution(name: str, step: _Step) -> bool:
    """`test -z "$(a)"` and `export X=$(a)` end with their own exit code, never with a's; so does
    every command that is given `<(a)`."""
    if step.then == "(" and step.words[-1] in ("<", ">"):
        return True
    has_one = step.then == "(" or any("$(" in word or "`" in word for word in step.words)
    return has_one and name in _IGNORING_PARTS


def _inner_script(words: tuple[str, ...]) -> str | None:
    """Return the script that these words hand to a shell, None when there is none. What stands
    before the shell (`env`, `timeout 5`, an assignment) passes its exit code on."""
    if _base_name(words[0]) == "eval":
        return " ".join(_unquoted(word) for word in words[1:])
    for position, word in enumerate(words):
        if _base_name(word) not in _SHELLS:
            continue
        for option, script in itertools.pairwise(words[position + 1 :]):
            if re.fullmatch(r"-[a-z]*c", option):
                return _unquoted(script)
    return None


def _recovers(steps: Sequence[_Step]) -> bool:
    """`a || b` ends with b's exit code, unless b is there to end the script with a failure."""
    return any(
        before.then == "||" and not _fails(after) for before, after in itertools.pairwise(steps)
    )


def _goes_on_after_a_failure(steps: Sequence[_Step]) -> bool:
    """`a; b` ends with b's exit code, unless the shell was told before to stop at a failure. Told
    so it still goes on after `if a` and after the a of `a && b`."""
    last = max((position for position, step in enumerate(steps) if step.words), default=0)
    stops = False
    for position, step in enumerate(steps[:last]):
        stops = _switches_on_stop(step.words) or (stops and not _switches_off_stop(step.words))
        if _is_passed_over(step, steps[position + 1 : last + 1], stops=stops):
            return True
    return False


def _is_passed_over(step: _Step, following: Sequence[_Step], *, stops: bool) -> bool:
    """Say whether what follows is run though `step` failed."""
    if not step.words or _may_be_passed_over(step.words):
        return False
    if not stops:
        return step.then in (";", "\n", ";;")
    if _base_name(step.words[0]) in _CONDITIONS:
        return len(step.words) > 1 and _base_name(step.words[1]) not in _ASKED
    ends_here = all(later.then in ("&&", "") for later in following)
    return step.then == "&&" and not ends_here and _base_name(step.words[0]) not in _ASKED


def _fails(step: _Step) -> bool:
    return step.words == ("false",) or _leaves(step.words)


def _leaves(words: tuple[str, ...]) -> bool:
    if words[:1] not in (("exit",), ("return",)):
        return False
    return len(words) == 1 or _FAILING_CODE.fullmatch(words[1]) is not None


def _may_be_passed_over(words: tuple[str, ...]) -> bool:
    """What only sets up is no check, and after `exit 1` nothing follows."""
    sets_up = words[0] in _SETTING_UP or all(_ASSIGNMENT.fullmatch(word) for word in words)
    return sets_up or (_leaves(words) and len(words) > 1)


def _switches_on_stop(words: tuple[str, ...]) -> bool:
    """`set -e`, `set -eu`, `set -o errexit`."""
    if not words or words[0] != "set":
        return False
    return any(re.fullmatch(r"-[a-z]*e[a-z]*|errexit", word) for word in words[1:])


def _switches_off_stop(words: tuple[str, ...]) -> bool:
    return words[:1] == ("set",) and "+e" in words


def _base_name(word: str) -> str:
    return _unquoted(word).rpartition("/")[2]


def _unquoted(word: str) -> str:
    try:
        return " ".join(shlex.split(word))
    except ValueError:
        return word
