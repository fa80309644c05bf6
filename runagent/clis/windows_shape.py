"""How an agent is started on Windows, where npm's CLIs are scripts that only a shell finds.

Owns the text of one pwsh command, the same barrier as everywhere: an error stops it, the prompt is
read whole into a variable before the CLI is named, and a pipe closes the CLI's stdin. Nothing of
the prompt stands in the text. Unrun: no Windows machine was at hand; the text is under tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contracts.errors import LaunchRefused

PWSH: Final = ("pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command")
_STOP: Final = "$ErrorActionPreference = 'Stop'; "
# Without it some hosts of pwsh turn an agent's exit code into an error of the shell's own.
_NATIVE: Final = "$PSNativeCommandUseErrorActionPreference = $false; "
_UTF8: Final = "$OutputEncoding = [Text.UTF8Encoding]::new($false); "


def pwsh_command(
    argv: Sequence[str], prompt: str, prompt_path: str, *, prompt_on_stdin: bool
) -> str:
    """Return the command that starts `argv` with the prompt of the file `prompt_path`. `argv` is
    the adapter's, with `prompt` in it once, as a word or behind `=`, unless it goes down stdin.

    Raises LaunchRefused when `argv` holds no prompt and none goes down stdin.
    """
    words = [_quoted(word) if prompt_on_stdin else _word(word, prompt) for word in argv]
    if not prompt_on_stdin and words == [_quoted(word) for word in argv]:
        raise LaunchRefused("the agent's words hold no prompt", remedy="nothing was started")
    read = f"$p = [IO.File]::ReadAllText({_quoted(prompt_path)}); "
    check = "if ([string]::IsNullOrEmpty($p)) { throw 'the staged prompt is empty' }; "
    start = f"{'$p' if prompt_on_stdin else '$null'} | & {' '.join(words)}; exit $LASTEXITCODE"
    return f"{_STOP}{_NATIVE}{_UTF8}{read}{check}{start}"


def pwsh_argv(
    argv: Sequence[str], prompt: str, prompt_path: str, *, prompt_on_stdin: bool
) -> tuple[str, ...]:
    """Return the argument vector of the shell that starts `argv`. Raises LaunchRefused."""
    command = pwsh_command(argv, prompt, prompt_path, prompt_on_stdin=prompt_on_stdin)
    return (*PWSH, command)


def _word(word: str, prompt: str) -> str:
    """Return one word as pwsh reads it: the prompt as the variable that holds it, everything else
    in single quotes, in which nothing is expanded."""
    if word == prompt:
        return '"$p"'
    option, equals, value = word.partition("=")
    if equals and value == prompt:
        return f'"{option}=$p"'
    return _quoted(word)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
