"""What one request to a model API says, the same for every API: who said what, which tools are
offered, and where the agent works. Pure; reads a body, keeps nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_FOLDERS = (
    r"[Ww]orking directory:? ?`?(/[^\n`\"<\\]+)",
    r"<cwd>(/[^<]+)</cwd>",
    r"[Ww]orkspace (?:directory|path|root):? ?`?(/[^\n`\"<\\]+)",
    r"(?m)^\s*-? ?(/[^\s`\"<\\]+/worktrees?/[^\s`\"<\\]+)",
)


@dataclass(frozen=True)
class Conversation:
    """`asked`: the texts of the user; `answered`: how many tool results there are; `tools`: name ->
    properties of its parameters; `folder`: the working folder, "" when the request names none."""

    asked: tuple[str, ...]
    answered: int
    tools: dict[str, dict[str, Any]]
    folder: str
    model: str
    streamed: bool


def folder_in(texts: list[str]) -> str:
    """Return the working folder that one of `texts` names, as the CLIs tell their models."""
    for pattern in _FOLDERS:
        for text in texts:
            found = re.search(pattern, text)
            if found:
                return found.group(1).strip().rstrip(".")
    return ""


def texts_of(content: object) -> list[str]:
    """Return the texts of a message's content: a string, or a list of parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part["text"] for part in parts if isinstance(part, dict) and "text" in part]
