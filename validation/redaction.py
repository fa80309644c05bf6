"""Secrets taken out of text before it leaves the host.

Owns what counts as a secret: values of this host that it knows by name, the userinfo of URLs, and
what is shaped like a key. A text may come in pieces of any size: the answer is that of the whole.
Raw output stays on the host and is not changed. An agent that wants to can spell a secret in a way
that nobody recognises: this is for accidents. It must never show or log a value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from contracts.run_agent import Risk, RunAgentResult
from validation.inert import inert

MARK: Final = "[redacted]"

# A shorter value stands in ordinary words too, and blanking those would say what it is.
VALUE_MIN_CHARS: Final = 8
_VALUE_LINE_MIN_CHARS: Final = 16  # a line of a value that has several: PEM lines have 64
_SECRET_NAME: Final = re.compile(
    r"(?:.*_)?(?:API_?KEY|(?:\w+_)?TOKEN|SECRET|SECRET_KEY|ACCESS_KEY|PRIVATE_KEY|PASSWORD|PASSWD"
    r"|CUSTOM_HEADERS)",
    re.IGNORECASE,
)
# A line without an end is taken in parts of this size, cut at white space: no token is split that
# is shorter than the second number. Keys and signed tokens of the makers named below have some
# hundred characters, the longest are JWTs of a few kilobytes.
_PART_MAX_CHARS: Final = 16_384
_TOKEN_MAX_CHARS: Final = 8_192
_KEY_BLOCK_MAX_CHARS: Final = 16_384  # an RSA key of 16,384 bits in PEM has some 12,700

# Each maker's documented prefix, then its alphabet.
_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic
    r"|xai-[A-Za-z0-9]{20,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}"
    r"|A(?:KIA|SIA)[0-9A-Z]{16}"  # AWS
    r"|AIza[0-9A-Za-z_-]{30,}"  # Google
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?"  # JWT
    r")"
    r"|(?<=://)[^\s/?#@\"'<>]{1,4096}(?=@)"
)
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


class Redactor:
    """Knows this host's secrets. Has no way to tell them."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        spellings = {spelling for value in values for spelling in _spellings(value)}
        told = (spelling for spelling in spellings if spelling not in MARK)
        self._values = tuple(sorted(told, key=lambda value: (-len(value), value)))

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} values)"

    def redact(self, text: str) -> str:
        """Return `text` with each secret replaced by `[redacted]`."""
        stream = self.stream()
        return stream.feed(text) + stream.finish()

    def stream(self) -> RedactedStream:
        """Return what redacts one text that comes in pieces."""
        return RedactedStream(self)

    def blank(self, part: str) -> str:
        """Return a part of a line with the secrets in it replaced; blocks of keys are not seen."""
        for value in self._values:
            part = part.replace(value, MARK)
        return _SHAPES.sub(MARK, part)


class RedactedStream:
    """One text on its way out. What is fed comes back line by line; at most 16 KiB are held."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._in_key = 0  # characters of a key's block that may still come

    def feed(self, text: str) -> str:
        """Take the next piece; return what can be shown by now."""
        if not self._held and 0 <= text.find("\n") == len(text) - 1 < _PART_MAX_CHARS:
            return self._pass(text)  # one whole line: agents print millions of them
        self._held += text
        shown: list[str] = []
        start = 0
        while (end := self._end_of_part(start)) > start:
            shown.append(self._pass(self._held[start:end]))
            start = end
        self._held = self._held[start:]
        return "".join(shown)

    def finish(self) -> str:
        """Return what stands after the last line end."""
        held, self._held = self._held, ""
        return self._pass(held)

    def _end_of_part(self, start: int) -> int:
        """Return where the part at `start` ends, `start` itself when that is not known yet. It
        depends on the text alone, and never on the pieces in which it came."""
        limit = start + _PART_MAX_CHARS
        found = self._held.find("\n", start, limit)
        if found >= 0:
            return found + 1
        if len(self._held) < limit:
            return start
        spaces = [self._held.rfind(space, limit - _TOKEN_MAX_CHARS, limit) for space in " \t"]
        return max(spaces) + 1 if max(spaces) >= 0 else limit

    def _pass(self, part: str) -> str:
        shown: list[str] = []
        while part:
            if self._in_key:
                part = self._rest_after_key(part)
                continue
            begins = _KEY_BEGINS.search(part)
            if begins is None:
                shown.append(self._redactor.blank(part))
                break
            shown += (self._redactor.blank(part[: begins.start()]), MARK)
            self._in_key = _KEY_BLOCK_MAX_CHARS
            part = part[begins.end() :]
        return "".join(shown)

    def _rest_after_key(self, part: str) -> str:
        """Return what `part` holds behind the key that is open. One that is too long is no key."""
        end = _KEY_ENDS.search(part)
        if end is not None:
            self._in_key = 0
            return part[end.end() :]
        taken = min(self._in_key, len(part))
        self._in_key -= taken
        return part[taken:]


def secret_values(environment: Mapping[str, str], names: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the values in `environment` that are secrets: those of `names`, and those whose names
    say it (`…_API_KEY`, `…_TOKEN`, `…_SECRET`, `…_PASSWORD` and their like)."""
    named = frozenset(names)
    return tuple(
        value
        for name, value in environment.items()
        if name in named or _SECRET_NAME.fullmatch(name)
    )


def redacted_result(result: RunAgentResult, redactor: Redactor) -> RunAgentResult:
    """Return `result` with the secrets in its words blanked, and its risks and notes inert: they
    name files. Lists of paths stay exact: they are evidence."""

    def told(message: str) -> str:
        return inert(redactor.redact(message))

    def risk_told(risk: Risk) -> Risk:
        return risk.model_copy(update={"message": told(risk.message)})

    validation, reason, usage = result.validation, result.reason, result.usage
    commands = tuple(
        command.model_copy(update={"command": redactor.redact(command.command)})
        for command in validation.commands
    )
    return result.model_copy(
        update={
            "summary": redactor.redact(result.summary),
            "sessionId": redactor.redact(result.sessionId),
            "tests_attempted": tuple(map(redactor.redact, result.tests_attempted)),
            "known_risks": tuple(map(told, result.known_risks)),
            "risks": tuple(map(risk_told, result.risks)),
            "notes": tuple(map(risk_told, result.notes)),
            "validation": validation.model_copy(update={"commands": commands}),
            "reason": reason and reason.model_copy(update={"message": told(reason.message)}),
            "usage": usage and usage.model_copy(update={"models": tuple(map(told, usage.models))}),
            "agentVersion": told(result.agentVersion),
        }
    )


def _spellings(value: str) -> Iterable[str]:
    """Yield `value` as it may stand in text: raw, inside JSON, inside a URL; of several lines each
    one, since text is taken line by line."""
    lines = [line for line in value.splitlines() if line]
    shortest = VALUE_MIN_CHARS if len(lines) == 1 else _VALUE_LINE_MIN_CHARS
    for line in lines:
        if len(line.strip()) >= shortest:
            yield from (line, line.strip(), json.dumps(line)[1:-1], quote(line, safe=""))
    if len(lines) > 1:
        yield json.dumps(value)[1:-1]
