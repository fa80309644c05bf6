"""The process tree as the system shows it: who descends from whom, and is it alive.

Two censuses with one shape: `Subtree` (Linux: /proc under a subreaper, exact) and `Remembered`
(macOS has no subreaper: `ps` snapshots, the best there is; a double fork between two snapshots
escapes; tried on Linux only, never on macOS). Standard library alone, few imports: the warden
loads it at every start. It must never decide whom to end.
"""

from __future__ import annotations

import os

LOOK_S = 1.0  # how often the parent is checked when no signal says anything
SNAPSHOT_S = 0.25  # how often `ps` is asked where there is no subreaper


def send(pid: int, number: int) -> None:
    """Signal one process; one that is gone or not ours any more is no error."""
    try:
        os.kill(pid, number)
    except OSError:
        return


def stat_of(pid: int) -> tuple[str, int, int, int] | None:
    """Return (state, parent, group, session) from /proc, None when the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if len(fields) < 4:
        return None
    return fields[0].decode("ascii"), int(fields[1]), int(fields[2]), int(fields[3])


def _children(pid: int) -> list[int]:
    kids: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return kids
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", "rb") as file:
                kids += [int(kid) for kid in file.read().split()]
        except OSError:
            continue
    return kids


def _by_parent() -> dict[int, list[int]]:
    """Return children by parent from /proc/*/stat: for kernels without the `children` files."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        stat = stat_of(int(name)) if name.isdigit() else None
        if stat is not None:
            found.setdefault(stat[1], []).append(int(name))
    return found


def descendants(root: int, *, children_files: bool = True) -> list[int]:
    """Return every living descendant of `root` from /proc, zombies left out.

    A walk can miss what forks during it: whoever hunts walks again until nothing is left.
    """
    me = os.getpid()
    if children_files and os.path.exists(f"/proc/{me}/task/{me}/children"):
        kids_of = _children
    else:
        table = _by_parent()
        kids_of = lambda pid: table.get(pid, [])  # noqa: E731 - same shape as the function above
    seen = [root]
    for pid in seen:  # grows while it is walked
        seen += [kid for kid in kids_of(pid) if kid not in seen]
    return [pid for pid in seen[1:] if (stat := stat_of(pid)) is not None and stat[0] not in "ZX"]


class Subtree:
    """All descendants of this process, exactly: it is their subreaper."""

    look_s = LOOK_S

    def living(self) -> list[int]:
        """Return the living descendants."""
        return descendants(os.getpid())

    def is_gone(self, *, childless: bool) -> bool:
        """Say whether nothing is left; `childless` is what waitpid says, and it is exact."""
        return childless


class Remembered:
    """Descendants of the leader as `ps` showed them: for systems without a subreaper."""

    look_s = SNAPSHOT_S

    def __init__(self, leader: int) -> None:
        """Start from the leader, whose group is always counted in."""
        self._leader = leader
        self._known: dict[int, str] = {leader: ""}  # pid -> start time: a reused pid is another

    def living(self) -> list[int]:
        """Take a snapshot; return every known process that lives, and remember the new ones."""
        table = snapshot()
        alive = {pid for pid, since in self._known.items() if self._is_same(table, pid, since)}
        grew = True
        while grew:
            new = {
                pid
                for pid, (parent, group, _, _) in table.items()
                if pid not in alive and (parent in alive or group == self._leader)
            }
            alive |= new
            grew = bool(new)
        self._known = {pid: table[pid][3] for pid in alive}
        return [pid for pid in alive if not table[pid][2].startswith("Z")]

    def _is_same(self, table: dict[int, tuple[int, int, str, str]], pid: int, since: str) -> bool:
        return pid in table and since in {"", table[pid][3]}

    def is_gone(self, *, childless: bool) -> bool:
        """Say whether nothing known is left."""
        return childless and not self.living()


def snapshot() -> dict[int, tuple[int, int, str, str]]:
    """Return pid -> (parent, group, state, start time) of every process, from `ps`."""
    reader, writer = os.pipe()
    pid = os.posix_spawn(
        "/bin/ps",
        ["ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart="],
        {"LC_ALL": "C", "PATH": "/bin:/usr/bin"},
        file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1)],
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        lines = file.read().decode("ascii", "replace").splitlines()
    os.waitpid(pid, 0)  # our only thread reaps, so it is still there
    table: dict[int, tuple[int, int, str, str]] = {}
    for line in lines:
        fields = line.split(None, 4)
        if len(fields) == 5 and int(fields[0]) != pid:
            table[int(fields[0])] = (int(fields[1]), int(fields[2]), fields[3], fields[4])
    return table
