"""Which of git's settings make it start a program, or take further settings from elsewhere.

One that appears during a job was planted by the agent or by a tool that it ran, and the owner's
next plain git command obeys it. Names are git's own (git-config(1) of 2.39 and later releases);
case does not matter in their first and last part.
"""

from __future__ import annotations

import re
from typing import Final

_ALWAYS: Final = re.compile(
    r"core\.(?:hookspath|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand|worktree"
    r"|attributesfile)"
    r"|core\.fsmonitor|include\.path|includeif\..+\.path|filter\..+\.(?:clean|smudge|process)"
    r"|diff\.external|diff\..+\.(?:command|textconv)|merge\..+\.driver"
    r"|(?:diff|merge)tool\..+\.(?:cmd|path)|(?:man|browser|guitool)\..+\.(?:cmd|path)"
    r"|credential\.(?:.+\.)?helper|gpg\.(?:.+\.)?(?:program|defaultkeycommand)|sequence\.editor"
    r"|pager\..+|uploadpack\.packobjectshook|remote\..+\.(?:uploadpack|receivepack|proxy|vcs)"
    r"|url\..+\.(?:insteadof|pushinsteadof)|http\.(?:.+\.)?proxy|sendemail\..*(?:cmd|server|path)"
    r"|trailer\..+\.(?:cmd|command)|interactive\.difffilter|instaweb\..+|imap\.tunnel"
    r"|submodule\..+\.update|init\.templatedir|web\.browser|help\.browser|hook\..+\.command"
    r"|protocol\.(?:.+\.)?allow|safe\.directory|lfs\..*(?:transfer|extension)\..*",
    re.IGNORECASE | re.DOTALL,
)
_OFF: Final = frozenset({"", "false", "no", "off", "0"})


def starts_program(record: bytes) -> bool:
    r"""Say whether the setting `record` (`key\nvalue`, as `git config --null --list` has it) makes
    git start a program or obey another file. What cannot be read counts as one that does."""
    key, _, raw = record.partition(b"\n")
    name = key.decode("utf-8", "backslashreplace")
    value = raw.decode("utf-8", "backslashreplace").strip()
    if name.startswith("("):
        return True
    if name.lower().startswith("alias."):
        return value.startswith("!")
    if name.lower() in {"core.fsmonitor", "core.pager", "core.editor"} and value.lower() in _OFF:
        return False
    if name.lower().startswith("submodule."):
        return name.lower().endswith(".update") and value.startswith("!")
    return _ALWAYS.fullmatch(name) is not None
