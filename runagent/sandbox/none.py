"""No sandbox: agent and validator have the rights of the host's user, and the result says so."""

from __future__ import annotations

from contracts.run_agent import Risk
from contracts.sandbox import Capability, SandboxMode
from runagent.process import ProcessRunner
from runagent.sandbox.protocol import Box, GitPlace, Site


class NoSandbox:
    """See Sandbox."""

    mode = SandboxMode.NONE
    enforces: frozenset[Capability] = frozenset()

    def enclose(self, site: Site) -> Box:
        """See Sandbox.enclose."""
        return OpenBox(GitPlace(site.worktree.admin_dir, site.worktree.common_dir))


class OpenBox:
    """A box without walls: git writes where git always writes."""

    def __init__(self, git: GitPlace) -> None:
        self.git = git

    def around(self, runner: ProcessRunner, /) -> ProcessRunner:
        """See Box.around."""
        return runner

    def renew(self) -> None:
        """See Box.renew. Nothing is private: the agent's places are the host's own."""

    def bring_home(self) -> tuple[Risk, ...]:
        """See Box.bring_home. It never left home."""
        return ()

    def close(self) -> None:
        """See Box.close."""
