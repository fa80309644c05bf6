"""What appeared in a repository's shared git directory that the owner's next git command would run.

New settings that start a program, and hooks that are new or other than before. What went away, and
what can do no harm, is not named here.
"""

from __future__ import annotations

from typing import Final

from runagent.around.program_settings import starts_program
from runagent.around.shared_state import SharedState

_HOOKS: Final = "hooks"
_SAMPLE: Final = ".sample"
_SHARED: Final = ("config", "config.worktree")


def tell_planted(before: SharedState, now: SharedState) -> tuple[str, ...]:
    """Return the new settings as `file: key`, and the hooks by name; sorted, without repetition."""
    told: set[str] = set()
    for file in _SHARED:
        for record in now.settings.get(file, frozenset()) - before.settings.get(file, frozenset()):
            if starts_program(record):
                key = record.partition(b"\n")[0].decode("utf-8", "backslashreplace")
                told.add(f"{file}: {key}")
    for name, fingerprint in now.parts.items():
        is_hook = name == _HOOKS or name.startswith(f"{_HOOKS}/")
        if is_hook and not name.endswith(_SAMPLE) and fingerprint != before.parts.get(name, ""):
            told.add(name)
    return tuple(sorted(told))
