"""Which of the offered tools does what the script wants: every CLI names its tools differently."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from tests.support.model.conversation import Conversation
from tests.support.model.script import Edit, Read, Shell, Write

Wish = Write | Read | Edit | Shell


@dataclass(frozen=True)
class Call:
    """One call: `arguments` of a function, or the free `text` of a custom tool."""

    name: str
    arguments: dict[str, Any]
    text: str | None = None


def choose(wish: Wish, conversation: Conversation) -> Call | None:
    """Return a call of an offered tool that does `wish`; None when none of them can."""
    tools = conversation.tools
    for name, arguments in _candidates(wish, conversation.folder):
        if name in tools:
            known = tools[name]
            return Call(name, {k: v for k, v in arguments.items() if not known or k in known})
    if "apply_patch" in tools and isinstance(wish, Write | Edit):
        return Call("apply_patch", {}, _patch(wish))
    if isinstance(wish, Shell):
        return None
    return choose(Shell(_command(wish)), conversation)


def _candidates(wish: Wish, folder: str) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(wish, Shell):
        said = {"command": wish.command, "description": "A step", "is_background": False}
        names = ("Bash", "run_shell_command", "run_terminal_command", "run_terminal_cmd", "bash")
        listed = {"command": ["bash", "-lc", wish.command]}
        return [
            *((name, said) for name in names),
            ("exec_command", {"cmd": wish.command}),
            ("shell_command", {"command": wish.command}),
            ("shell", listed),
            ("local_shell", listed),
        ]
    path = wish.name if not folder else os.path.join(folder, wish.name)
    if isinstance(wish, Write):
        given = {"file_path": path, "path": path, "content": wish.text, "contents": wish.text}
        return [(name, given) for name in ("Write", "write_file", "create_file", "write")]
    if isinstance(wish, Read):
        given = {"file_path": path, "path": path, "target_file": path, "absolute_path": path}
        return [(name, given) for name in ("Read", "read_file")]
    given = {"file_path": path, "old_string": wish.old, "new_string": wish.new}
    given |= {"instruction": "Mend it.", "path": path}
    return [(name, given) for name in ("Edit", "replace", "search_replace")]


def _patch(wish: Write | Edit) -> str:
    if isinstance(wish, Write):
        lines = "\n".join(f"+{line}" for line in wish.text.splitlines())
        body = f"*** Add File: {wish.name}\n{lines}"
    else:
        body = f"*** Update File: {wish.name}\n@@\n-    {wish.old}\n+    {wish.new}"
    return f"*** Begin Patch\n{body}\n*** End Patch\n"


def _command(wish: Write | Read | Edit) -> str:
    if isinstance(wish, Read):
        return f"cat '{wish.name}'"
    if isinstance(wish, Write):
        escaped = wish.text.replace("\n", "\\n")
        return f"printf '{escaped}' > '{wish.name}'"
    return f"sed -i 's/{wish.old}/{wish.new}/' '{wish.name}'"
