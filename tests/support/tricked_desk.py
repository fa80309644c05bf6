"""A desk where a scripted agent plays a trick through the verb `run-agent`, boxed or not.

The trick is first played in a worktree of a second, equal repository, for the control: plain git
there is what a person, or a host that asks git, would see. Each of the two has its own canary.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.desk import Desk, Done
from tests.support.repositories import git, state_of
from tests.support.sandbox_modes import EXERCISED
from tests.support.trick import Trick, has_fired, hush, make_canary, make_tricked_repository, play

MODES = ("none", "auto")
_SHARED = ("config", "hooks", "info", "objects/info", "refs/heads/master", "refs/replace")
# The mark that the agent itself left (its own git runs the canary, too) is taken away at its end:
# what is there afterwards comes from the host.
_AGENT = """
environment = {{**os.environ, **{names}, "ADMIN": ""}}
found = subprocess.run(["git", "rev-parse", "--absolute-git-dir"], capture_output=True, text=True)
environment["ADMIN"] = found.stdout.strip()
done = subprocess.run(["sh", "-eu", "-c", {script}], env=environment)
try:
    os.unlink({mark})
except OSError:
    pass
finish("script ended %d" % done.returncode)
"""
_WHO = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
}


@dataclass
class Control:
    """The worktree of an equal repository in which the trick was played for plain git."""

    tree: Path
    repo: Path
    canary: Path

    def fires(self, command: str, seconds: float = 60.0) -> bool:
        """Say whether the shell `command`, run in the tree, starts the canary."""
        hush(self.canary)
        process = subprocess.Popen(
            ["sh", "-c", command],
            cwd=self.tree,
            env={**os.environ, **_WHO, "REPO": str(self.repo)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        give_up = time.monotonic() + seconds
        # A canary in the place of a transport holds git for ever: it has fired by then.
        while process.poll() is None and not has_fired(self.canary) and time.monotonic() < give_up:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return has_fired(self.canary)


class TrickedDesk:
    """One desk, one trick at a time."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder = folder
        self.mode = mode
        self.desk = Desk(folder / "desk")
        self.repo = make_tricked_repository(folder / "work" / "repo")
        self.canary = make_canary(folder / "canary")
        self.outside = folder / "outside"
        self.outside.mkdir()
        self.desk.machine.sandbox = mode

    def control(self, trick: Trick) -> Control:
        """Play `trick` where no host looks; return what plain git can be asked in."""
        repo = make_tricked_repository(self.folder / "control" / "repo")
        tree = self.folder / "control" / "tree"
        git(repo, "worktree", "add", "-q", "-b", "wt/j/T-1", str(tree))
        canary, outside = make_canary(self.folder / "control" / "canary"), tree.parent / "outside"
        outside.mkdir()
        play(trick, tree, repo=repo, canary=canary, outside=outside)
        return Control(tree, repo, canary)

    def run(self, script: str, *words: str) -> Done:
        """Let an agent play `script` through `run-agent`, validated by `true`."""
        names = {
            **_WHO,
            "REPO": str(self.repo),
            "OUTSIDE": str(self.outside),
            "CANARY": str(self.canary),
        }
        mark = str(self.canary.parent / "fired")
        self.desk.agent(_AGENT.format(names=repr(names), script=repr(script), mark=repr(mark)))
        done = self.desk.run("--validate-cmd", "true", *words, repo=self.repo, seconds=300.0)
        stood = str(done.result["sandbox"]["mode"] or "none")
        assert self.mode in ("auto", stood), "the run was in another sandbox than it was to be"
        EXERCISED[stood] += 1
        return done

    def verb(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another verb of this machine to its end, whatever its exit code."""
        return self.desk.machine.run(*words)

    def shared_state(self) -> dict[str, Any]:
        """Return what the repository's shared git directory holds that git obeys."""
        found: dict[str, Any] = {}
        for name in _SHARED:
            path = self.repo / ".git" / name
            found[name] = state_of(path) if path.is_dir() else path.exists() and path.read_bytes()
        return found

    @property
    def is_silent(self) -> bool:
        """Say whether no canary of this desk was run since the agent's end."""
        return not has_fired(self.canary)


def script_worked(done: Done) -> bool:
    """Say whether the agent's script ran to its end."""
    return json.loads(done.stdout)["summary"] == "script ended 0"
