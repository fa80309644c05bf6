"""A result that is always whole: what can grow is cut at a stated size, and said so.

Owns the sizes of a `run_agent` result's parts, whose sum stays under 1 MiB of JSON whatever an
agent printed or left behind. A list that was cut records the risk `truncated`, which forces a
review. It must never cut inside a path and never drop a frozen key.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from contracts import limits
from contracts.reason import Reason
from contracts.run_agent import Rename, Risk, RunAgentResult, Validation, ValidationCommand
from contracts.usage import Usage
from validation.text import shortened, whole

TRUNCATED: Final = "truncated"

_Item = TypeVar("_Item")

# Shares of one result, in bytes of compact JSON. With the summary, the short texts, the extra
# fields and all keys they stay under 920 KiB; an indented print-out has room in what is left.
_SHARES: Final = {
    "changed_files": limits.LIST_MAX_BYTES,
    "agent_changed_files": 96 * 1024,
    "validator_changed_files": 96 * 1024,
    "ignored_changed_files": 32 * 1024,
    "renames": 96 * 1024,
    "paths_base64": 64 * 1024,
    "tests_attempted": 48 * 1024,
    "validation.commands": 48 * 1024,
    "risks": 48 * 1024,
    "known_risks": 48 * 1024,
    "notes": 16 * 1024,
    "usage.models": 4 * 1024,
}
_SUMMARY_MAX_BYTES: Final = 32 * 1024
_TEXT_MAX_CHARS: Final = 1_000
_TEXT_MAX_BYTES: Final = 2 * 1024
_PATH_MAX_BYTES: Final = 16 * 1024
_EXTRA_MAX_BYTES: Final = 16 * 1024
_PATH_LISTS: Final = (
    *("changed_files", "agent_changed_files", "validator_changed_files", "ignored_changed_files"),
)
_SHORT_TEXTS: Final = (
    "agent", "jobId", "mode", "host", "baseRef", "baseCommit", "headCommit", "branch", "sessionId",
    "agentVersion",
)  # fmt: skip


def bounded(result: RunAgentResult) -> RunAgentResult:
    """Return `result` with every part within its size.

    `changed_files_total` is set to the number of changed files before the cut. The JSON of what is
    returned is valid, whole and smaller than 1 MiB. Bounding twice changes nothing more.
    """
    cutter = _Cutter()
    changes: dict[str, Any] = {
        "summary": _text(result.summary, limits.SUMMARY_MAX_CHARS, _SUMMARY_MAX_BYTES),
        "worktreePath": _text(result.worktreePath, _PATH_MAX_BYTES, _PATH_MAX_BYTES),
        "renames": cutter.fit("renames", result.renames, _whole_rename),
        "paths_base64": dict(
            cutter.fit("paths_base64", tuple(result.paths_base64.items()), _whole_pair)
        ),
        "tests_attempted": cutter.fit("tests_attempted", result.tests_attempted, _line),
        "validation": _validation(result.validation, cutter),
        "notes": cutter.fit("notes", result.notes, _risk),
        "reason": None if result.reason is None else _reason(result.reason, cutter),
        "usage": None if result.usage is None else _usage(result.usage, cutter),
        "changed_files_total": max(result.changed_files_total, len(result.changed_files)),
    }
    for name in _PATH_LISTS:
        changes[name] = cutter.fit(name, getattr(result, name), whole)
    for name in _SHORT_TEXTS:
        changes[name] = _text(getattr(result, name), _TEXT_MAX_CHARS, _TEXT_MAX_BYTES)
    unknown = cutter.unknown_fields(result.model_extra)
    changes.update(_risks(result, cutter))
    known = {name: getattr(result, name) for name in RunAgentResult.model_fields}
    return RunAgentResult(**{**unknown, **known, **changes})


class _Cutter:
    """Takes what fits into a share, and remembers what did not."""

    def __init__(self) -> None:
        self.lost: dict[str, int] = {}

    def fit(
        self,
        name: str,
        items: Sequence[_Item],
        clean: Callable[[_Item], _Item],
        *,
        max_items: int = limits.LIST_MAX_ITEMS,
    ) -> tuple[_Item, ...]:
        """Return the longest beginning of `items`, cleaned, that fits the share of `name`."""
        room = _SHARES[name]
        kept: list[_Item] = []
        for item in map(clean, items[:max_items]):
            room -= _json_bytes(item) + 1
            if room < 0:
                break
            kept.append(item)
        if len(kept) < len(items):
            self.lost[name] = len(items) - len(kept)
        return tuple(kept)

    def unknown_fields(self, fields: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the fields that this version does not know, or none of them if they are large."""
        known = dict(fields or {})
        if _json_bytes(known) <= _EXTRA_MAX_BYTES:
            return known
        self.lost["further fields"] = len(known)
        return {}


def _risks(result: RunAgentResult, cutter: _Cutter) -> dict[str, Any]:
    """Bound the risks last: they have to say what else was cut, themselves included."""
    told = [_risk(risk) for risk in result.risks if risk.code == TRUNCATED][-1:]
    messages = {risk.message for risk in told}
    most = limits.RISKS_MAX_ITEMS - 1
    risks = [risk for risk in result.risks if risk.code != TRUNCATED or _risk(risk) not in told]
    others = cutter.fit("risks", risks, _risk, max_items=most)
    lines = [line for line in result.known_risks if _line(line) not in messages]
    other_lines = cutter.fit("known_risks", lines, _line, max_items=most)
    if cutter.lost and not told:
        what = ", ".join(f"{name} (without {count})" for name, count in cutter.lost.items())
        told = [Risk(code=TRUNCATED, message=f"cut to fit: {what}; the host has the whole")]
    last = tuple(risk.message for risk in told)
    return {
        "risks": (*others, *told),
        "known_risks": (*other_lines, *last),
        "needs_human_review": result.needs_human_review or bool(told),
    }


def _validation(validation: Validation, cutter: _Cutter) -> Validation:
    known = {name: getattr(validation, name) for name in Validation.model_fields}
    known["commands"] = cutter.fit("validation.commands", validation.commands, _command)
    return Validation(**{**cutter.unknown_fields(validation.model_extra), **known})


def _reason(reason: Reason, cutter: _Cutter) -> Reason:
    known = {name: getattr(reason, name) for name in Reason.model_fields}
    for name in ("code", "message", "resetsAt"):
        known[name] = None if known[name] is None else _line(known[name])
    return Reason(**{**cutter.unknown_fields(reason.model_extra), **known})


def _usage(usage: Usage, cutter: _Cutter) -> Usage:
    known = {name: getattr(usage, name) for name in Usage.model_fields}
    known["models"] = cutter.fit("usage.models", usage.models, _line)
    return Usage(**{**cutter.unknown_fields(usage.model_extra), **known})


def _command(command: ValidationCommand) -> ValidationCommand:
    return command.model_copy(update={"command": _line(command.command)})


def _risk(risk: Risk) -> Risk:
    return risk.model_copy(update={"code": _line(risk.code), "message": _line(risk.message)})


def _whole_pair(pair: tuple[str, str]) -> tuple[str, str]:
    return whole(pair[0]), whole(pair[1])


def _whole_rename(rename: Rename) -> Rename:
    return rename.model_copy(
        update={"source": whole(rename.source), "target": whole(rename.target)}
    )


def _line(text: str) -> str:
    return shortened(text, limits.RISK_MAX_CHARS)


def _text(text: str, max_chars: int, max_bytes: int) -> str:
    """Shorten by characters first, then until its JSON fits: an escape takes up to 6 bytes."""
    short = shortened(text, max_chars)
    while (size := _json_bytes(short)) > max_bytes:
        max_chars = min(max_chars, len(short)) * max_bytes // size
        short = shortened(text, max_chars)
    return short


def _json_bytes(value: object) -> int:
    """Return the size of `value` as JSON; larger than any share when it cannot be written."""
    plain = value.model_dump(mode="json", by_alias=True) if isinstance(value, BaseModel) else value
    try:
        return len(json.dumps(plain, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError):
        return limits.RESULT_MAX_BYTES
