"""One program run directly: no warden, no wrapper, and it does not die with us.

For git as the repository's owner would run it: it starts nothing of anybody else's, ends within
milliseconds, and what it writes it should rather finish than leave half made when this process is
killed. Its deadline binds, a Ctrl-C of ours ends it, and it is in a group of its own. It carries
the marker of the run that we are a part of: one that hangs is found when all above it were killed.
Linux only.
"""

from __future__ import annotations

import os
import secrets
import sys

from runagent._cgroup import MARKER_NAME
from runagent._family import Family
from runagent._program import NoProgram, explain, find_program
from runagent._short import ShortProcess
from runagent._unstarted import UnstartedProcess
from runagent.process import ProcessOutcome, ProcessSpec


def can_run_directly() -> bool:
    """Say whether this system can: it has descriptors of processes (Linux 5.3)."""
    if sys.platform != "linux":
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError:
        return False
    return True


def run_directly(spec: ProcessSpec) -> ProcessOutcome:
    """Run `spec` to its end and return how that was; NOT_STARTED says why. An interruption ends it
    and is raised."""
    program = spec.argv[0]
    try:
        program = find_program(spec)
        marker = spec.marker or spec.env.get(MARKER_NAME) or secrets.token_hex(16)
        return ShortProcess(spec, program, (), marker, Family(is_guardian=False)).wait()
    except NoProgram as error:
        return UnstartedProcess(str(error)).wait()
    except OSError as error:
        return UnstartedProcess(explain("exec", error.errno or 0, spec, program)).wait()
