"""The counts of a soak: what was started, what came back, what is left, and what of it is wrong."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from contracts import limits, naming
from contracts.clock import SystemClock
from contracts.run_agent import RunAgentResult
from tests.support.fleet import git
from tests.support.hosts import Host
from tests.support.soak_fleet import MID_RUN_SHARE, Fleet, Killer, Size
from worker.journal.journal import Journal
from worker.journal.trees import TreeRecord


@dataclass
class Counts:
    """What is printed at the end: each number, and what is wrong."""

    rows: list[tuple[str, object]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, name: str, value: object) -> None:
        self.rows.append((name, value))

    def expect(self, name: str, value: object, wanted: object) -> None:
        self.add(name, value)
        if value != wanted:
            self.wrong.append(f"{name}: {value!r}, wanted {wanted!r}")

    def at_least(self, name: str, value: int, least: int) -> None:
        self.add(name, value)
        if value < least:
            self.wrong.append(f"{name}: {value}, wanted at least {least}")


def count_kills(counts: Counts, killer: Killer, size: Size) -> None:
    for kind in ("listener", "run", "broker"):
        counts.add(f"kills of {kind}", killer.landed[kind])
    counts.at_least("kills landed", killer.landed.total(), min(30, size.kills))
    counts.at_least("kills mid-run", killer.mid_run, min(10, size.kills // MID_RUN_SHARE))


def count_jobs(counts: Counts, fleet: Fleet) -> None:
    jobs = set(fleet.sent)
    marks = [path.name for host in fleet.hosts for path in (host.home / "marks").glob("*.start")]
    agents = Counter(name.partition(".")[0] for name in marks)
    # A kill between the claim and the agent ends the job without an agent: it was begun, and lost.
    without = {job for job in jobs if not agents[job] and _was_lost(fleet.results.get(job))}
    counts.expect("jobs", len(jobs), fleet.size.jobs)
    counts.expect("copies", fleet.copies, fleet.size.copies)
    counts.add("agents started", agents.total())
    counts.add("agents cut off by a kill", agents.total() - _ends(fleet))
    counts.add("lost between claim and agent", len(without))
    counts.expect("starts", agents.total() + len(without), len(jobs))
    counts.expect("started twice", [job for job, times in agents.items() if times > 1], [])
    counts.expect("results", len(fleet.results), len(jobs))
    statuses = Counter(result.status.value for result in fleet.results.values())
    for status, times in sorted(statuses.items()):
        counts.add(f"results {status}", times)
    with fleet.broker.client() as connection:
        others = connection.keys("fd:result:*:others")
        short = [
            job for job in jobs if connection.ttl(naming.result_key(job)) < limits.RESULT_TTL_S / 2
        ]
    counts.expect("second results", len(others), 0)
    counts.expect("results that would go soon", len(short), 0)


def _ends(fleet: Fleet) -> int:
    return sum(len(list((host.home / "marks").glob("*.end"))) for host in fleet.hosts)


def _was_lost(result: RunAgentResult | None) -> bool:
    codes = {risk.code for risk in result.risks} if result else set()
    return bool(codes & {"listener_lost", "run_process_died"})


def count_zombies(counts: Counts, fleet: Fleet) -> None:
    zombies = [item.pid for host in fleet.hosts for item in host.family() if _is_zombie(item)]
    if zombies:  # a moment before its parent looks is no zombie
        time.sleep(2)
        zombies = [pid for pid in zombies if psutil.pid_exists(pid)]
    counts.expect("zombies", zombies, [])


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def count_journals(counts: Counts, fleet: Fleet) -> None:
    known: set[str] = set()
    for host in fleet.hosts:
        with sqlite3.connect(host.journal_file) as database:
            (sound,) = database.execute("PRAGMA integrity_check").fetchone()
        counts.expect(f"journal of {host.name}", sound, "ok")
        journal = Journal(host.journal_file, SystemClock())
        try:
            ours = {job for job in fleet.sent if journal.find(job) is not None}
            orphans, owed = journal.orphans(), list(journal.unpublished())
            odd = [job for job in ours if not _is_sound([r.state for r in journal.history(job)])]
        finally:
            journal.close()
        counts.expect(f"jobs of {host.name} in no order", odd, [])
        counts.expect(f"jobs of {host.name} without an end", len(orphans) + len(owed), 0)
        counts.expect(f"jobs of {host.name} that another host has", len(known & ours), 0)
        known |= ours
    counts.expect("jobs in the journals", len(known), len(fleet.sent))


def _is_sound(states: list[Any]) -> bool:
    """Say whether a history is one claim, at most one start, one end, and then one delivery."""
    words = [state.value for state in states]
    once = all(words.count(word) == 1 for word in ("claimed", "done", "published"))
    return once and words[0] == "claimed" and words[-2:] == ["done", "published"]


def count_trees(counts: Counts, fleet: Fleet) -> None:
    """After a collection every tree, branch and folder of git's stands in exactly one register,
    and every result that names a tree names one that is there."""
    with ThreadPoolExecutor() as pool:
        collected = list(pool.map(_collect, fleet.hosts))
    counts.add("trees half made, settled", sum(len(it["settled"]) for it in collected))
    counts.expect("problems of the collections", [it["problems"] for it in collected], [[], []])
    records = [record for host in fleet.hosts for record in _register(host)]
    known = {record.job for record in records if not record.is_removed}
    removed = {record.job: Path(record.aside) for record in records if record.is_removed}
    counts.add("worktrees", len(known))
    counts.add("worktrees that the policy put aside", len(removed))
    counts.expect("worktrees in two registers", len(records) - len(known) - len(removed), 0)
    folder = Path(naming.agents_folder(str(fleet.repo)))
    asides = {path.parent for path in removed.values()}
    standing = set(folder.iterdir()) - asides if folder.is_dir() else set()
    trees = {path.name for path in standing}
    branches = git(fleet.repo, "for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/wt/")
    admin = {path.name for path in (fleet.repo / ".git" / "worktrees").iterdir()}
    owners = {line.partition("/")[0] for line in branches.split()}
    counts.expect("stray worktrees", sorted(trees - known), [])
    counts.expect("stray branches", sorted(owners - known), [])
    counts.expect("stray folders of git", sorted(admin - known), [])
    counts.expect("registered and not there", sorted(known - (trees & owners & admin)), [])
    lost = [job for job, aside in removed.items() if not aside.is_dir()]
    counts.expect("put aside and not there", lost, [])
    named = {Path(result.worktreePath).name for result in fleet.results.values()} - {""}
    counts.expect("results whose worktree is gone", sorted(named - trees - set(removed)), [])


def _collect(host: Host) -> dict[str, Any]:
    found: dict[str, Any] = host.read_json("worktrees", "gc", seconds=300)
    return found


def _register(host: Host) -> tuple[TreeRecord, ...]:
    with contextlib.closing(Journal(host.journal_file, SystemClock())) as journal:
        return tuple(journal.trees.standing())


def words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return [str(process.pid)]
