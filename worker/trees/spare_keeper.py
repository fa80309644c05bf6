"""Keeping a spare tree of each repository in use, beside the jobs and never in their way.

Looks at the journal now and then: a repository whose last job has ended gets one spare, one that
had no job for a day loses its own. Bounded in number and in bytes by `[worktrees]`. Nothing is made
where no box would hide it from agents, nor on a disk near its floor. What fails is said, and costs
the next job its time and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Final

from contracts.clock import Clock
from contracts.errors import FleetError
from dispatch.config_worktrees import WorktreesSection
from dispatch.private_files import make_private_folder
from runagent.deadline import Deadline
from runagent.disk_floor import free_bytes
from runagent.git.repository import admit_repository
from runagent.process import ProcessRunner
from runagent.sandbox.protocol import Sandbox
from runagent.trees.spare_checkout import make_spare
from worker.announcer import Say
from worker.host_sandbox import host_sandbox
from worker.journal.journal import Journal
from worker.journal.spares import RepositoryInUse, SpareRecord
from worker.settings import HostSettings
from worker.spare_shelf import SpareShelf, hides_spares, shelf_folder
from worker.trees.places import bytes_of

IN_USE_S: Final = 86_400.0  # a repository without a job for a day is not in use
_LOOK_EVERY_S: Final = 2.0  # one query of the journal; a job takes minutes
_TEND_EVERY_S: Final = 600.0  # without a job: settings, disks and days change slowly
_NICE: Final = 10  # half of what there is: jobs go first


class SpareKeeper:
    """Keeps the spares of one host."""

    def __init__(
        self,
        journal: Journal,
        shelf: SpareShelf,
        policy: WorktreesSection,
        *,
        sandbox: Callable[[], Sandbox],
        runner: ProcessRunner,
        clock: Clock,
        say: Say,
        timeout_s: float,
        free: Callable[[str], int | None] = free_bytes,
    ) -> None:
        """`sandbox` tells what agents here run in, `free` the free bytes of a path's volume;
        `timeout_s` bounds the making of one spare."""
        self._journal = journal
        self._shelf = shelf
        self._policy = policy
        self._sandbox = sandbox
        self._runner = runner
        self._clock = clock
        self._say = say
        self._timeout_s = timeout_s
        self._free = free
        self._refused: dict[str, str] = {}  # common_dir -> the commit that it was refused at
        self._is_hidden: bool | None = None  # None: not asked yet

    def start(self, ended: threading.Event) -> None:
        """Run in a thread of its own, a daemon that nobody waits for: what it leaves half done when
        this process ends is removed at the next start."""
        threading.Thread(target=self.run, args=(ended,), name="spares", daemon=True).start()

    def run(self, ended: threading.Event) -> None:
        """Tend at once and after each end of a job, until `ended` is set."""
        _step_behind_the_jobs()
        seen, last = -1, self._clock.monotonic()
        while not ended.is_set():
            now, ends = self._clock.monotonic(), self._ends()
            if ends != seen or now - last >= _TEND_EVERY_S:
                seen, last = ends, now
                self._guarded(lambda: self.tend(ended.is_set), ended)
            self._clock.wait(ended, _LOOK_EVERY_S)

    def tend(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Remove the spares that nobody needs, and make those that are missing."""
        self._sweep()
        wanted = self._wanted()
        kept = self._keep({used.common_dir for used in wanted})
        for used in wanted:
            if stopped():
                return
            left = self._policy.spare_bytes - sum(record.bytes for record in kept.values())
            if used.common_dir not in kept and self._may_make(used):
                made = self._make(used, left)
                if made is not None:
                    kept[used.common_dir] = made

    def _wanted(self) -> list[RepositoryInUse]:
        since = self._clock.wall() - IN_USE_S
        found = self._journal.spares.repositories_in_use(since, self._policy.spares)
        if not found or not self._hides():
            return []
        return [used for used in found if os.path.isdir(used.common_dir)]

    def _keep(self, wanted: set[str]) -> dict[str, SpareRecord]:
        """Drop what is not wanted, or too much; return the spares that stay, and those that are
        being made or taken, by repository."""
        kept: dict[str, SpareRecord] = {}
        total = 0
        for record in self._journal.spares.all():
            if not record.is_ready:
                continue
            fits = total + record.bytes <= self._policy.spare_bytes
            stands = os.path.isdir(os.path.join(self._shelf.place(record.name), "tree"))
            is_needed = record.common_dir in wanted and record.common_dir not in kept
            if is_needed and fits and stands and self._has_room(0):
                kept[record.common_dir] = record
                total += record.bytes
            elif self._shelf.drop(record):
                self._say("spare_dropped", repo=record.repo)
        return kept

    def _may_make(self, used: RepositoryInUse) -> bool:
        """Say whether a spare could be handed over at all: the shelf must be on the volume of the
        worktrees, and the repository's last start must not have been refused."""
        make_private_folder(self._shelf.folder.parent)
        make_private_folder(self._shelf.folder)
        try:
            beside = os.stat(os.path.dirname(used.repo)).st_dev
            own = os.stat(self._shelf.folder).st_dev
        except OSError:
            return False
        return own == beside and self._refused.get(used.common_dir) != used.base_commit

    def _make(self, used: RepositoryInUse, left: int) -> SpareRecord | None:
        """Make one spare of at most `left` bytes; None when that is not to be."""
        if not self._has_room(0):
            return None
        spares = self._journal.spares
        name = secrets.token_hex(8)
        try:
            self._journal.repositories.check(used.common_dir)
            repository = admit_repository(used.repo)
            spares.plan(name, used)
            folder = self._shelf.place(name)
            os.mkdir(folder, 0o700)
            free = self._free(folder)
            room = left if free is None else free - self._policy.disk_floor_bytes
            spare = make_spare(
                folder,
                repository,
                used.base_commit,
                runner=self._runner,
                deadline=Deadline(self._timeout_s),
                max_bytes=min(left, room),
            )
            size = bytes_of(folder)
            if repository.common_dir == used.common_dir and self._has_room(0) and size <= left:
                spares.stands(spare, size=size)
                self._say("spare_made", repo=used.repo, bytes=size)
                return next(record for record in spares.all() if record.name == name)
            why = "it takes more room than there is"
        except (FleetError, OSError) as error:
            why = str(error)
        self._refused[used.common_dir] = used.base_commit
        with contextlib.suppress(FleetError, OSError):
            self._shelf.remove(name)
        self._say("spare_not_made", repo=used.repo, why=why)
        return None

    def _has_room(self, more: int) -> bool:
        free = self._free(str(self._shelf.folder))
        return free is None or free - more >= self._policy.disk_floor_bytes

    def _hides(self) -> bool:
        """Say whether agents here run in a box that keeps them from the state folder."""
        if self._is_hidden is None:
            try:
                self._is_hidden = hides_spares(self._sandbox())
            except FleetError:  # the named mode does not work: no agent runs here at all
                return False
        return self._is_hidden

    def _sweep(self) -> None:
        swept = self._shelf.sweep()
        if swept:
            self._say("spares_swept", count=swept)

    def _ends(self) -> int:
        try:
            return self._journal.spares.last_end()
        except FleetError:
            return -1

    def _guarded(self, act: Callable[[], None], ended: threading.Event) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - the top of a thread: jobs go on without it
            if not ended.is_set():
                why = str(error) if isinstance(error, FleetError) else ""
                self._say("spares_failed", reason=type(error).__name__, why=why)


def spare_keeper(
    settings: HostSettings,
    journal: Journal,
    *,
    environment: Mapping[str, str],
    runner: ProcessRunner,
    clock: Clock,
    say: Say,
) -> SpareKeeper:
    """Return the keeper of this host's spares."""
    return SpareKeeper(
        journal,
        SpareShelf(journal.spares, shelf_folder(settings.state_dir)),
        settings.worktrees,
        sandbox=lambda: host_sandbox(settings, runner, environment).sandbox,
        runner=runner,
        clock=clock,
        say=say,
        timeout_s=settings.worktree_timeout_s,
    )


def _step_behind_the_jobs() -> None:
    """Give this thread, and what it starts, a lower priority than the jobs have; Linux alone knows
    priorities of threads."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
