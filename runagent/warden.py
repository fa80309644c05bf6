"""The warden: a tiny process between us and one agent, so that nothing of a run outlives it.

Run by COMMAND in an isolated interpreter without site-packages; it and `_tree` import the standard
library alone. It is a child subreaper (Linux): whatever the agent starts, in whatever session,
with whatever environment, becomes a child of the warden when its own parent dies, and so can be
found and ended. It ends everything when the leader exits, when told to, at the deadline, and when
whoever started it dies. It must never interpret output, and it knows no policy.
"""

from __future__ import annotations

import os
import select
import sys
import time

from runagent._cgroup import end_all, make_leaf, remove
from runagent._leader import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    Order,
    prctl,
    read_order,
    start_leader,
)
from runagent._tree import Remembered, Subtree, send

TYPE_CHECKING = False  # `typing` is left out: every import here delays each start
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal  # the C half: the same calls without enum, 9 ms less a start
    except ImportError:
        import signal

SETTLE_S = 0.2  # children of a leader that has just exited may be exiting too: not survivors yet
LEFTOVER_GRACE_S = 0.5  # between TERM and KILL for what a leader left behind on a plain exit
ORPHAN_GRACE_S = 5.0  # whoever started us is gone: nobody waits for a result that takes longer
CEILING_S = 4.0  # a process in uninterruptible sleep cannot be killed: give up and say so
FREEZE_ROUNDS = 8
STOP_BYTE = b"S"
_RAN = b'"exit-code"'  # bwrap(1), --json-status-fd: left out when the program was not started
# Our own root comes last on the path, after the standard library. A module and not a script, so
# that the compiled form is kept: 9 ms less a start than running the file by its path.
COMMAND = (
    "import os, sys; sys.path.append(sys.argv[1]); from runagent.warden import main; "
    "main(sys.argv[1:]); os._exit(0)"
)


class Warden:
    """Watches one leader from its start until nothing of its tree is left."""

    def __init__(self, control: int, parent: int, order: Order) -> None:
        """Take the control socket, the pid that must stay our parent, and the order."""
        self._control = control
        self._parent = parent
        self._leaf = order.leaf
        self._grace_s = order.grace_s
        self._spares_leader = order.spares_leader
        self._order = order
        self._deadline = time.monotonic() + order.timeout_s
        self._bell, self._ringer = os.pipe()
        self._poll = select.poll()
        self._childless = False
        self._tree: Subtree | Remembered = Subtree()
        self._leader = 0
        self._status: int | None = None
        self._cause = ""
        self._survivors: set[int] = set()

    def listen(self) -> None:
        """Turn the signals that matter into bytes on a pipe."""
        os.set_blocking(self._bell, False)
        os.set_blocking(self._ringer, False)
        signal.set_wakeup_fd(self._ringer, warn_on_full_buffer=False)
        for number in (
            signal.SIGCHLD,
            signal.SIGUSR1,
            signal.SIGTERM,
            signal.SIGINT,
            signal.SIGHUP,
        ):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        self._poll.register(self._control, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)

    def watch(self, leader: int, *, subreaper: bool) -> str:
        """Stay until the tree is gone; return the report, one line of JSON."""
        self._leader = leader
        self._tree = Subtree() if subreaper else Remembered(leader)
        while self._status is None and not self._cause:
            self._look(min(self._tree.look_s, max(0.0, self._deadline - time.monotonic())))
            if isinstance(self._tree, Remembered):
                self._tree.living()
        self._cause = self._cause or "exit"
        left = self._end_tree()
        code, number = "null", "null"
        if self._status is not None and os.WIFSIGNALED(self._status):
            number = str(os.WTERMSIG(self._status))
        elif self._status is not None:
            code = str(os.WEXITSTATUS(self._status))
        return (
            f'{{"event":"ended","exit":{code},"signal":{number},"cause":"{self._cause}",'
            f'"survivors":{len(self._survivors)},"left":{left},'
            f'"ran":{"true" if self._has_run() else "false"}}}\n'
        )

    def _has_run(self) -> bool:
        """Say whether the program ran. A wrapper that tells says an exit code only if it did, on a
        descriptor that the program never has; one that was killed could not tell."""
        if self._order.telling < 0 or self._status is None or os.WIFSIGNALED(self._status):
            return True
        os.set_blocking(self._order.telling, False)
        try:
            return _RAN in os.read(self._order.telling, 65536)
        except BlockingIOError:
            return True  # somebody holds it open still: nothing is known

    def _look(self, seconds: float) -> None:
        ready = [fd for fd, _ in self._poll.poll(int(seconds * 1000) + 1)]
        self._reap()  # first: a leader that exited by itself did so, whatever we are told next
        rung = os.read(self._bell, 512) if self._bell in ready else b""
        asked = self._hear() if self._control in ready else ""
        if self._status is None and not self._cause:
            self._cause = asked or self._find_cause(rung)

    def _hear(self) -> str:
        if os.read(self._control, 512):
            return "stop"
        self._poll.unregister(self._control)  # its end would wake every look from now on
        return "orphaned"

    def _find_cause(self, rung: bytes) -> str:
        if os.getppid() != self._parent:
            return "orphaned"
        if any(number in rung for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)):
            return "signal"
        return "deadline" if time.monotonic() >= self._deadline else ""

    def _reap(self) -> None:
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._leader:
                    self._status = status
        except ChildProcessError:
            self._childless = True

    def _is_gone(self) -> bool:
        return self._tree.is_gone(childless=self._childless)

    def _end_tree(self) -> int:
        """End all that is left; return how many processes could not be ended."""
        grace_s = self._grace_s
        if self._cause == "exit":
            self._linger(SETTLE_S)
            self._survivors.update(self._tree.living())
            grace_s = min(LEFTOVER_GRACE_S, grace_s)
        elif self._cause == "orphaned":
            grace_s = min(ORPHAN_GRACE_S, grace_s)
        if not self._is_gone():
            self._ask_to_end()
            self._linger(grace_s)
        return self._kill()

    def _ask_to_end(self) -> None:
        for pid in self._tree.living():
            if pid == self._leader and self._spares_leader:
                continue  # a wrapper's own end is a sudden one for all behind it
            send(pid, signal.SIGTERM)
            send(pid, signal.SIGCONT)  # one that is stopped would not see the TERM

    def _kill(self) -> int:
        give_up = time.monotonic() + CEILING_S
        pause_s = 0.001
        while not self._is_gone():
            frozen = self._freeze()
            self._survivors |= frozen - {self._leader}
            end_all(self._leaf)  # at once, where there is one; then whoever had left it
            for pid in frozen:
                send(pid, signal.SIGKILL)
            if time.monotonic() >= give_up:
                return len(frozen)
            self._look(pause_s)
            pause_s = min(pause_s * 2, 0.02)
        return 0

    def _linger(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._is_gone() and (rest := until - time.monotonic()) > 0:
            self._look(min(rest, self._tree.look_s))

    def _freeze(self) -> set[int]:
        """Stop the whole tree, so that nothing forks while it is killed."""
        frozen: set[int] = set()
        for _ in range(FREEZE_ROUNDS):
            new = set(self._tree.living()) - frozen
            if not new:
                break
            for pid in new:
                send(pid, signal.SIGSTOP)
            frozen |= new
        return frozen


def _tell(control: int, line: str) -> None:
    try:
        os.write(control, line.encode("ascii"))
    except OSError:
        return  # nobody listens any more; what had to be done is done


def main(argv: list[str]) -> None:
    """Serve one order that comes on the control socket `argv[1]`, for the parent `argv[2]`."""
    control, parent = int(argv[1]), int(argv[2])
    os.set_inheritable(control, False)  # noqa: FBT003 - positional only
    linux = sys.platform == "linux"
    subreaper = linux and prctl(PR_SET_CHILD_SUBREAPER, 1)
    if linux:
        # The kernel signals when the parent's *thread* ends, so the signal only rings: _look
        # compares the parent's pid, which changes only with the whole process.
        signal.signal(signal.SIGUSR1, lambda *_: None)
        prctl(PR_SET_PDEATHSIG, signal.SIGUSR1)
    order = read_order(control)
    if order is None or os.getppid() != parent:
        return
    # Our own git is started dozens of times in a run, and runs nothing of an agent's.
    if linux and os.path.basename(order.program) != b"git":
        order.leaf = make_leaf(order.marker, os.getpid())
    warden = Warden(control, parent, order)
    warden.listen()
    leader, stage, number = start_leader(order)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # the pipes are the agent's alone, or their end is never seen
        os.dup2(null, stream)
    if not leader:
        remove(order.leaf)
        _tell(control, f'{{"event":"not_started","stage":"{stage}","errno":{number}}}\n')
        return
    _tell(control, f'{{"event":"started","pid":{leader}}}\n')
    report = warden.watch(leader, subreaper=subreaper)
    remove(order.leaf)
    _tell(control, report)
