"""The order a warden serves, and the start of its leader: session, signals, folder, exec.

Runs inside the warden, a process with one thread, so that Python may run between fork and exec.
Standard library alone, few imports. The leader must get default signals and none of our
descriptors but the three standard streams.
"""

from __future__ import annotations

import os
import sys

from runagent._cgroup import MARKER_NAME, join

TYPE_CHECKING = False  # `typing` is left out: every import here delays each start
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal  # the C half: the same calls without enum, 9 ms less a start
    except ImportError:
        import signal

PR_SET_PDEATHSIG = 1  # prctl(2)
PR_SET_CHILD_SUBREAPER = 36


class Order:
    """What to start: decoded from NUL-separated fields, which no argument can contain."""

    def __init__(self, fields: list[bytes]) -> None:
        """Read timeout, grace, the walls, cwd, program, then arguments behind their number, then
        the environment. The walls: is the leader spared, is Landlock used, which word is the
        number of the descriptor on which a wrapper tells, which one of that from which it reads
        a filter, and behind the number of each the paths that may be written and read."""
        self.leaf = ""  # the cgroup to start in, where there is one
        self.timeout_s = float(fields[0])
        self.grace_s = float(fields[1])
        self.spares_leader = fields[2] == b"1"
        self.landlock = fields[3] == b"1"
        self.tells_at = int(fields[4])
        self.sieve_at = int(fields[5])
        self.telling = -1  # where to read what the wrapper tells
        self.writable, rest = _counted(fields[6:])
        self.readable, rest = _counted(rest)
        self.cwd, self.program = rest[:2]
        self.argv, rest = _counted(rest[2:])
        pairs = (entry.partition(b"=") for entry in rest)
        self.env = {name: value for name, _, value in pairs}
        self.marker = os.fsdecode(self.env.get(MARKER_NAME.encode("ascii"), b""))


def _counted(fields: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    end = 1 + int(fields[0])
    return fields[1:end], fields[end:]


def read_order(control: int) -> Order | None:
    """Read `<length>` newline `<fields>`; None when the other side is gone."""
    data = b""
    while b"\n" not in data:
        chunk = os.read(control, 65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\n")
    parts = [body]
    missing = int(head) - len(body)
    while missing > 0:
        chunk = os.read(control, 65536)
        if not chunk:
            return None
        parts.append(chunk)
        missing -= len(chunk)
    return Order(b"".join(parts).split(b"\0"))


def prctl(option: int, value: int) -> bool:
    """Set an attribute of this process; False where there is none or it refuses."""
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def start_leader(order: Order) -> tuple[int, str, int]:
    """Start the leader; return its pid, or 0 with the stage that failed and its errno."""
    reader, writer = os.pipe()
    order.telling, teller = os.pipe() if order.tells_at else (-1, -1)
    warden = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        os.close(reader)
        os.close(writer)
        return 0, "fork", error.errno or 0
    if pid == 0:
        if order.tells_at:
            os.set_inheritable(teller, True)  # noqa: FBT003 - positional only
            order.argv[order.tells_at] = b"%d" % teller
        _become(order, writer, warden)
    os.close(writer)
    if order.tells_at:
        os.close(teller)
    told = os.read(reader, 64)  # closed by a successful exec
    os.close(reader)
    if not told:
        return pid, "", 0
    os.waitpid(pid, 0)
    stage, _, number = told.decode("ascii").partition(" ")
    return 0, stage, int(number)


def _filter_to_read() -> int:
    """Return an inheritable descriptor from which the filter of `_sieve` is read to its end."""
    from runagent._sieve import filter_bytes

    reader, writer = os.pipe()
    os.write(writer, filter_bytes())  # far less than a pipe holds
    os.close(writer)
    os.set_inheritable(reader, True)  # noqa: FBT003 - positional only
    return reader


def _become(order: Order, failure: int, warden: int) -> None:
    stage = "session"
    try:
        os.setsid()
        if sys.platform == "linux":
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != warden:  # it died before the line above could tell us
                os._exit(127)
        default_signals()
        join(order.leaf)
        stage = "cwd"
        os.chdir(order.cwd)
        if order.landlock:
            stage = "landlock"
            from runagent._landlock import confine

            confine(order.writable, order.readable)
            stage = "sieve"
            from runagent import _sieve

            _sieve.confine()
        stage = "sieve"
        if order.sieve_at:
            order.argv[order.sieve_at] = b"%d" % _filter_to_read()
        stage = "program"
        os.execve(order.program, order.argv, order.env)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(failure, b"%s %d" % (stage.encode("ascii"), error.errno or 0))
    finally:
        os._exit(127)


def default_signals() -> None:
    """Give every signal its default action and block none: Python ignores SIGPIPE, a service
    manager may ignore SIGHUP, and an agent would inherit both."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # KILL, STOP, and the two that libc keeps for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
