"""What a stranger would try, tried by us: the program that a probe starts in a box.

Owns its text and the reading of its report. It runs in a bare interpreter, and its report is
believed only because the host wrote it and nobody else is in that box.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

# argv: folder that may be written, folder that may not, a secret, a socket, a guarded file, the
# host's pid and when that began (proc(5), stat): a box has numbers of its own, and the same may be
# among them. Each act says True when it worked.
CANARY: Final = r"""
import json, os, signal, socket, sys, time
tree, outside, secret, door, guarded, host, began = sys.argv[1:8]

def write(path):
    with open(path, "w") as file:
        file.write("canary")
    return True

def read(path):
    with open(path) as file:
        return "secret" in file.read()

def knock(path):
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(2)
    os.chdir(os.path.dirname(path))  # a socket's path may have 107 bytes, this one more
    end.connect(os.path.basename(path))
    return True

def replace(path):
    write(tree + "/other")
    os.replace(tree + "/other", path)
    return True

def see(pid):
    if os.path.exists("/proc/self"):
        with open("/proc/" + pid + "/stat") as file:
            return file.read().rpartition(")")[2].split()[19] == began
    os.kill(int(pid), 0)
    return True

def tried(act, argument):
    try:
        return act(argument)
    except OSError:
        return False

report = {
    "works": tried(write, tree + "/works"),
    "writes": tried(write, outside + "/canary"),
    "keys": tried(read, secret),
    "sockets": tried(knock, door),
    "git": tried(write, guarded) or tried(replace, guarded),
    "processes": tried(see, host),
}
beat = tree + "/beat"
if os.fork() == 0:  # a daemon that sheds session, environment and signals, and beats
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with open(beat, "a") as file:
            file.write(".")
        time.sleep(0.01)
    os._exit(0)
print(json.dumps(report), flush=True)
"""


def read_report(stdout: bytes) -> Mapping[str, bool] | None:
    """Return what the canary could do, None when it did not report."""
    try:
        report: Any = json.loads(stdout)
    except ValueError:
        return None
    if not isinstance(report, dict):
        return None
    return {str(name): bool(value) for name, value in report.items()}
