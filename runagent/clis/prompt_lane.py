"""How each CLI is asked one thing, without a repository: the second lane into the same programs.

Owns the argument vectors. None of them grants a permission: what the CLI's own default allows in an
empty folder is what it may do. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from contracts.prompt import Harness

_AGY_MODEL: Final = "Gemini 3.1 Pro (High)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One question: the command that stands first, the prompt, the empty folder (absolute), the
    limit in seconds, the model ("": the CLI's own) and the CLI's variant."""

    command: tuple[str, ...]
    prompt: str
    folder: str
    limit_s: int
    model: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """How one CLI is asked: its program, whether the prompt goes down stdin, and its words."""

    program: str
    prompt_on_stdin: bool
    argv: Callable[[Asking], tuple[str, ...]]


def _claude(asking: Asking) -> tuple[str, ...]:
    rest = (*_model("--model", asking.model), "--output-format", "text")
    if asking.prompt.startswith("-"):
        return (*asking.command, "-p", *rest, "--", asking.prompt)
    return (*asking.command, "-p", asking.prompt, *rest)


def _codex(asking: Asking) -> tuple[str, ...]:
    place = ("exec", "-C", asking.folder, "--sandbox", "read-only", "--skip-git-repo-check")
    return (*asking.command, *place, *_model("--model", asking.model), "-")


def _gemini(asking: Asking) -> tuple[str, ...]:
    if asking.variant == "gemini-cli":
        mode = ("--output-format", "text", "--approval-mode", "default", "--skip-trust")
        return (*asking.command, *_bound(asking), *mode, *_model("--model", asking.model))
    return (
        *asking.command,
        "--model",
        asking.model or _AGY_MODEL,
        "--add-dir",
        asking.folder,
        "--print-timeout",
        f"{asking.limit_s}s",
        *_bound(asking),
    )


def _grok(asking: Asking) -> tuple[str, ...]:
    place = ("--disable-web-search", "--cwd", asking.folder, "--output-format", "plain")
    return (*asking.command, *_bound(asking), *place, *_model("--model", asking.model))


def _ollama(asking: Asking) -> tuple[str, ...]:
    return (*asking.command, "run", asking.model)


def _bound(asking: Asking) -> tuple[str, ...]:
    """Bind a prompt that starts with a dash to its option, or it would be read as one."""
    if asking.prompt.startswith("-"):
        return (f"-p={asking.prompt}",)
    return ("-p", asking.prompt)


def _model(option: str, model: str) -> tuple[str, ...]:
    return (option, model) if model else ()


LANES: Final[Mapping[Harness, Lane]] = MappingProxyType(
    {
        Harness.CODEX: Lane("codex", prompt_on_stdin=True, argv=_codex),
        Harness.CLAUDE: Lane("claude", prompt_on_stdin=False, argv=_claude),
        Harness.GEMINI: Lane("agy", prompt_on_stdin=False, argv=_gemini),
        Harness.GROK: Lane("grok", prompt_on_stdin=False, argv=_grok),
        Harness.OLLAMA: Lane("ollama", prompt_on_stdin=True, argv=_ollama),
    }
)
