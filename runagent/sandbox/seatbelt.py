"""macOS's sandbox-exec as a sandbox. Written from its manual and from profiles that others use, and
never run: the probe decides on the machine, and `sandbox check` shows what it saw.

Owns the profile's text. As with Landlock the agent works in the real git directory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contracts.sandbox import Capability, SandboxMode
from runagent._program import NoProgram, find_program
from runagent.process import ProcessRunner, ProcessSpec, RunningProcess
from runagent.sandbox.home_layer import real_home
from runagent.sandbox.landlock import ScratchBox, make_scratch, with_scratch
from runagent.sandbox.masks import Private, doors
from runagent.sandbox.paths import open_paths
from runagent.sandbox.protocol import Box, Site

PROGRAM: Final = "/usr/bin/sandbox-exec"
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/ptmx", "/dev/dtracehelper")


def profile(
    writable: Iterable[str], hidden: Iterable[str], guarded: Iterable[str], doors: Iterable[str]
) -> str:
    """Return the profile: all is allowed but writing off the list, hidden paths and doors. Later
    rules win."""
    lines = [
        "(version 1)",
        "(allow default)",
        "(deny file-write*)",
        *(f"(allow file-write* (subpath {_quoted(path)}))" for path in writable),
        *(f"(allow file-write* (literal {_quoted(path)}))" for path in _DEVICES),
        '(allow file-write* (regex #"^/dev/ttys[0-9]+$"))',
        *(f"(deny file-write* (subpath {_quoted(path)}))" for path in guarded),
        *(f"(deny file-read* file-write* (subpath {_quoted(path)}))" for path in hidden),
        *(
            f"(deny network-outbound (remote unix-socket (subpath {_quoted(path)})))"
            for path in doors
        ),
    ]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seatbelt:
    """See Sandbox."""

    private: Private
    caches: tuple[str, ...]
    caches_are_default: bool = True
    enforces: frozenset[Capability] = frozenset()
    mode: SandboxMode = SandboxMode.SEATBELT

    def enclose(self, site: Site) -> Box:
        """See Sandbox.enclose."""
        scratch = make_scratch(site)
        paths = open_paths(
            site, self.private, self.caches, scratch, must_exist=self.caches_are_default
        )
        named = doors(site.host_environment, real_home(site.environment))
        pointer = f"{site.worktree.path}/.git"
        hidden = [path for path in paths.hidden if not scratch.startswith(f"{path}/")]
        text = profile(paths.writable, hidden, (*paths.guarded, pointer), named)
        return ScratchBox(site, lambda runner: _ProfiledRunner(runner, text, scratch))


def wrap(text: str, spec: ProcessSpec) -> ProcessSpec:
    """Return `spec` started under the profile `text`; as it is when its program is not there."""
    try:
        found = find_program(spec)
    except NoProgram:
        return spec
    return dataclasses.replace(spec, argv=(PROGRAM, "-p", text, found, *spec.argv[1:]))


def _quoted(path: str) -> str:
    """Return `path` as a string of the profile's language, which is a Scheme."""
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _ProfiledRunner:
    def __init__(self, runner: ProcessRunner, text: str, scratch: str) -> None:
        self._runner = runner
        self._text = text
        self._scratch = scratch

    def start(self, spec: ProcessSpec) -> RunningProcess:
        env = with_scratch(spec.env, self._scratch)
        return self._runner.start(wrap(self._text, dataclasses.replace(spec, env=env)))
