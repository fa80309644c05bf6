"""The box that bubblewrap builds: own file system view, own process ids, no capabilities.

Owns the order of the mounts of one job and the command line. The network stays open. Measured: a
start costs 5 ms, and some 0.2 ms for each entry of the home. bubblewrap's `--new-session` is not
used: the leader of every run has a session of its own and no terminal.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from contracts.errors import CouldNotCheck
from contracts.run_agent import Risk
from contracts.sandbox import Capability, SandboxMode
from runagent._program import NoProgram, find_program
from runagent._walls import Walls
from runagent.agents.state import AGENT_STATE
from runagent.git.branches import read_branches
from runagent.process import EndState, ProcessOutcome, ProcessRunner, ProcessSpec, RunningProcess
from runagent.sandbox.box_facts import BoxFacts, write_facts
from runagent.sandbox.box_folder import (
    box_folder,
    empty_box,
    git_folder,
    home_folder,
    import_folder,
    make_private_places,
    renew_private_places,
    store_folder,
    tmp_folder,
)
from runagent.sandbox.git_import import GitImport, sweep, take_home
from runagent.sandbox.git_layer import (
    GitLayer,
    git_mounts,
    make_git_layer,
    show_to_host,
    store_mount,
)
from runagent.sandbox.home_layer import (
    GuardedLink,
    cache_mounts,
    copy_files,
    guard_settings,
    lay_home,
    mend_links,
    real_home,
    state_folder,
)
from runagent.sandbox.masks import Private, doors, refuse_hidden
from runagent.sandbox.mounts import (
    Mount,
    arguments,
    ground,
    hidden_roots,
    hide,
    is_inside,
    read_only,
    writable,
)
from runagent.sandbox.programs import program_mounts
from runagent.sandbox.protocol import Box, GitPlace, Site, not_renewed

_FIXED: Final = ("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL")
_RUNTIME: Final = ("/run", "/var/run")


def wrap(program: str, mounts: Iterable[Mount], spec: ProcessSpec) -> ProcessSpec:
    """Return `spec` started by the bubblewrap at `program`. A program that is not there stays
    unwrapped: its absence is then told in the usual words."""
    try:
        found = find_program(spec)
    except NoProgram:
        return spec
    if not (os.path.isfile(found) and os.access(found, os.X_OK)):
        return spec
    told = ("--json-status-fd", "")  # the warden puts the number of a descriptor of its own here
    sieved = ("--seccomp", "")  # and here of one that it reads
    words = [program, *told, *sieved, *_FIXED, *arguments(mounts), "--chdir", spec.cwd, "--", found]
    # The wrapper passes no TERM on and its end is everybody's: it alone is not asked to end.
    walls = Walls(spares_leader=True, tells_at=len(told), sieve_at=len(told) + len(sieved))
    return dataclasses.replace(spec, argv=(*words, *spec.argv[1:]), walls=walls)


class BoxedRunner:
    """Starts programs in a box, whose private objects are in the folder `objects`."""

    def __init__(
        self, runner: ProcessRunner, program: str, mounts: Sequence[Mount], objects: str
    ) -> None:
        self._runner = runner
        self._program = program
        self._mounts = mounts
        self._objects = objects

    def start(self, spec: ProcessSpec) -> RunningProcess:
        """See ProcessRunner.start."""
        wrapped = wrap(self._program, self._mounts, spec)
        running = self._runner.start(wrapped)
        return running if wrapped is spec else _Boxed(running, self._objects)


class _Boxed:
    """A program in a box. When the box could not be built, nothing was started: bubblewrap says
    so to the warden, and what the program itself prints is not asked."""

    def __init__(self, running: RunningProcess, objects: str) -> None:
        self._running = running
        self._objects = objects
        self.pid = running.pid
        self.write = running.write
        self.close_stdin = running.close_stdin
        self.abort = running.abort

    def wait(self) -> ProcessOutcome:
        """See RunningProcess.wait."""
        outcome = self._running.wait()
        with contextlib.suppress(OSError):  # the host's git reads them next
            sweep(self._objects)
        if outcome.state is EndState.NOT_STARTED and outcome.stderr_total:
            said = outcome.stderr.decode("utf-8", "replace").strip()[:300]
            why = f"the sandbox could not be built ({said}); see fleet-dispatch sandbox check"
            return dataclasses.replace(outcome, why=why)
        return outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubblewrap:
    """See Sandbox. `program` is bubblewrap's path, `private` what is ours, `caches` the tool caches
    of this host, `enforces` what the probe saw to hold."""

    program: str
    private: Private
    caches: tuple[str, ...]
    caches_are_default: bool = True
    enforces: frozenset[Capability] = frozenset()
    mode: SandboxMode = SandboxMode.BUBBLEWRAP

    def enclose(self, site: Site) -> Box:
        """See Sandbox.enclose."""
        folder = box_folder(site.runtime_dir)
        home = real_home(site.environment)
        hidden = [*self.private.hidden(home), os.path.realpath(site.runtime_dir)]
        doors_here = [door for path in doors(site.host_environment, home) for door in hide(path)]
        refused = [*hidden, *_RUNTIME, *(door.target for door in doors_here)]
        for path in (site.worktree.repo, site.worktree.path, site.worktree.common_dir):
            refuse_hidden(path, refused, "the repository")
        layer = GitLayer(git_folder(folder), store_folder(folder), site.worktree)
        try:
            os.makedirs(folder, mode=0o700)
            make_private_places(folder)
            make_git_layer(layer)
            show_to_host(site.worktree.shadow_dir, layer)
            mounts, links = self._mounts(site, home, layer)
            mounts += [*doors_here, *(mask for path in hidden for mask in hide(path))]
            mounts.append(store_mount(layer))
            facts = BoxFacts(
                worktree=site.worktree,
                branches=read_branches(layer.folder),
                stood_at=(site.worktree.base_commit,),
            )
            write_facts(folder, facts)  # last: from here on an agent may be started
        except OSError as error:
            raise CouldNotCheck(
                f"the sandbox could not be built: {error.strerror} ({error.filename})",
                remedy="see fleet-dispatch sandbox check",
            ) from error
        return BubblewrapBox(
            self.program,
            site,
            GitImport(layer, import_folder(folder), site.runner, facts),
            layer,
            mounts,
            links,
        )

    def _mounts(
        self, site: Site, home: str, layer: GitLayer
    ) -> tuple[list[Mount], tuple[GuardedLink, ...]]:
        folder, environment = box_folder(site.runtime_dir), site.environment
        mounts = ground(tmp_folder(folder), environment)
        covered = hidden_roots(environment)
        if home:
            mounts += lay_home(home, home_folder(folder))
        if is_inside(site.worktree.repo, covered):
            mounts.append(read_only(site.worktree.repo))
        mounts += program_mounts((site.program,), environment.get("PATH", ""), covered)
        mounts += cache_mounts(home, self.caches, environment, must_exist=self.caches_are_default)
        state = AGENT_STATE[site.agent]
        guarded, links = guard_settings(state_folder(home, state, environment), state)
        mounts += guarded
        copy_files(home, home_folder(folder), state)
        mounts.append(writable(site.worktree.path))
        mounts += git_mounts(layer)
        mounts.append(read_only(os.path.join(site.worktree.path, ".git")))
        return mounts, links


class BubblewrapBox:
    """See Box."""

    def __init__(
        self,
        program: str,
        site: Site,
        commits: GitImport,
        layer: GitLayer,
        mounts: list[Mount],
        links: tuple[GuardedLink, ...],
    ) -> None:
        self.git = GitPlace(layer.admin_dir, layer.folder)
        self._program = program
        self._site = site
        self._mounts = mounts
        self._links = links
        self._objects = layer.objects
        self._import = commits

    def around(self, runner: ProcessRunner, /) -> ProcessRunner:
        """See Box.around."""
        return BoxedRunner(runner, self._program, self._mounts, self._objects)

    def renew(self) -> None:
        """See Box.renew. The mounts stay: they show the same places, which are new."""
        folder, home = box_folder(self._site.runtime_dir), real_home(self._site.environment)
        try:
            renew_private_places(folder)
            if home:
                lay_home(home, home_folder(folder))
            copy_files(home, home_folder(folder), AGENT_STATE[self._site.agent])
        except OSError as error:
            raise not_renewed(error) from error

    def bring_home(self) -> tuple[Risk, ...]:
        """See Box.bring_home."""
        risks = take_home(self._import, self._site.deadline_s)
        changed = mend_links(self._links)
        if changed:
            told = f"settings that are links were replaced and put back: {', '.join(changed)}"
            risks = (*risks, Risk(code="tampered", message=told))
        return risks

    def close(self) -> None:
        """See Box.close."""
        empty_box(box_folder(self._site.runtime_dir), is_complete=self._import.is_complete)
