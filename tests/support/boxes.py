"""Runs in each of the sandboxes: a bench whose agent is a shell script, on a host with private
things, sockets and a home, so that the same act can be tried with walls and without."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from contracts.run_agent import AgentName, RunAgentResult
from contracts.sandbox import SandboxMode
from runagent.process import system_runner
from runagent.sandbox.choice import SandboxSettings, choose_sandbox
from runagent.sandbox.masks import Private
from runagent.sandbox.protocol import Sandbox, Site
from tests.support.agents.bench import PROGRAMS, Bench
from tests.support.repositories import make_repository, prepare
from tests.support.sandbox_modes import EXERCISED
from tests.support.tools import require_tool

_ME = "git -c user.name=Agent -c user.email=agent@example.org"


class BoxBench(Bench):
    """A bench in one sandbox mode. `fleet` holds what is private to us."""

    def __init__(self, folder: Path, mode: str, *, caches: tuple[str, ...] | None = None) -> None:
        super().__init__(folder)
        for place in (folder / "fleet" / "keys", folder / "state"):
            place.mkdir(parents=True)
        (folder / "fleet" / "keys" / "alice.key").write_text("secret\n")
        (folder / "fleet" / "config.toml").write_text("# secret\n")
        (folder / "state" / "journal.sqlite3").write_text("secret\n")
        self.outside = folder / "outside"
        self.outside.mkdir()
        self._choose(mode, caches)

    @classmethod
    def again(cls, folder: Path, mode: str) -> BoxBench:
        """Return the bench that another process made in `folder`, its agent in place."""
        bench = cls.__new__(cls)
        bench.folder, bench.repo, bench.bin = folder, folder / "repo", folder / "bin"
        bench.home, bench.outside = folder / "home", folder / "outside"
        bench.environment = {
            "PATH": f"{bench.bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(bench.home),
        }
        bench.recorded = []
        bench._choose(mode, None)
        return bench

    def _choose(self, mode: str, caches: tuple[str, ...] | None) -> None:
        self.mode = mode
        self.fleet = self.folder / "fleet"
        state = self.folder / "state"
        self.sandbox = sandbox_in(mode, self.fleet, state, self.environment, caches)

    def act(self, script: str, *more: str, agent: str = "claude", **fields: Any) -> RunAgentResult:
        """Run an agent that is the shell script `script`, and `more` scripts at further starts."""
        self.place(script, *more, agent=agent)
        ports: Mapping[str, Any] = {"sandbox": self.sandbox, **fields.pop("ports", {})}
        return self.carry_out(self.order(agent, **fields), ports)

    def place(self, *scripts: str, agent: str = "claude") -> None:
        """Put an agent in place that is one of the shell scripts at each start."""
        EXERCISED[self.mode] += 1
        program = self.bin / PROGRAMS[agent]
        turn = self.bin / "turn"
        turn.mkdir(exist_ok=True)
        for number, text in enumerate(scripts, start=1):
            (turn / f"{number}.sh").write_text(text)
        # The count of starts stands in the home: that of the box, or the real one.
        program.write_text(
            "#!/bin/bash\n"
            'if [ -e "$HOME/second" ]; then n=2; else n=1; fi; touch "$HOME/second"\n'
            f"[ -e {turn}/$n.sh ] || n=1\n"
            f'git() {{ command {_ME} "$@"; }}\n. {turn}/$n.sh\n'
        )
        program.chmod(0o755)
        (self.home / "second").unlink(missing_ok=True)

    def carry_out(self, order: Any, ports: Mapping[str, Any]) -> RunAgentResult:
        """Run `order` on a host with `ports`."""
        from runagent.host import run_agent

        return run_agent(order, self.ports(order.job_id, **ports))

    def said(self, result: RunAgentResult, number: int = 1) -> str:
        """Return what start `number` of the agent printed, both streams."""
        folder = self.runtime_dir(result.jobId)
        return "".join((folder / f"attempt-{number}.{name}").read_text() for name in _STREAMS)


_STREAMS = ("stdout", "stderr")


def sandbox_in(
    mode: str,
    fleet: Path,
    state: Path,
    environment: Mapping[str, str],
    caches: tuple[str, ...] | None = None,
) -> Sandbox:
    """Return the sandbox `mode` of this machine, tried; without its tool skip or fail as usual."""
    if mode == SandboxMode.BUBBLEWRAP:
        require_tool("bwrap")
    private = Private(config_dir=str(fleet), keys_dir=str(fleet / "keys"), state_dir=str(state))
    settings = SandboxSettings(mode=mode, caches=caches, private=private)
    return choose_sandbox(settings, system_runner(), environment).sandbox


@contextlib.contextmanager
def listening(path: Path) -> Iterator[Path]:
    """Listen on a socket at `path`, which may be longer than a socket's path can be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as door:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            door.bind(f"/proc/self/fd/{parent}/{path.name}")
        finally:
            os.close(parent)
        door.listen()
        yield path


def knock(path: Path) -> str:
    """Return a shell command that connects to the socket at `path`."""
    text = (
        "import os, socket; "
        f"os.chdir({str(path.parent)!r}); "
        f"socket.socket(socket.AF_UNIX).connect({path.name!r})"
    )
    return f'{os.path.realpath(sys.executable)} -IS -c "{text}"'


Make = Callable[..., BoxBench]


def private_in(folder: Path) -> Private:
    """Return what is ours on a host in `folder`, made."""
    for name in ("fleet/keys", "state"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return Private(
        config_dir=str(folder / "fleet"),
        keys_dir=str(folder / "fleet" / "keys"),
        state_dir=str(folder / "state"),
    )


def settings_in(folder: Path, mode: str) -> SandboxSettings:
    """Return the settings of a host in `folder`."""
    return SandboxSettings(mode=mode, caches=None, private=private_in(folder))


def site_in(folder: Path, **environment: str) -> Site:
    """Return one job in `folder`, its worktree made."""
    repo = make_repository(folder / "repo")
    (folder / "home").mkdir(exist_ok=True)
    worktree = prepare(repo, folder / "state")
    runtime = folder / "state" / "job"
    runtime.mkdir()
    named = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), **environment}
    return Site(
        worktree=worktree,
        runtime_dir=str(runtime),
        agent=AgentName.CLAUDE,
        program="/bin/true",
        environment=named,
        host_environment=named,
        runner=system_runner(),
        deadline_s=60.0,
    )
