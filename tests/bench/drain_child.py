"""A process that starts a program through the process seam and drains it: argv is the program's.

Prints the seconds, the bytes it saw and its own largest resident memory, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time

from runagent.process import ProcessSpec, run, system_runner
from tests.support.desk import peak_bytes


def main() -> None:
    """Drain one program."""
    spec = ProcessSpec(argv=tuple(sys.argv[1:]), cwd="/", env=dict(os.environ), timeout_s=200)
    began = time.perf_counter()
    outcome = run(system_runner(), spec)
    seconds = time.perf_counter() - began
    assert outcome.exit_code == 0, outcome
    seen = outcome.stdout_total + outcome.stderr_total
    print(json.dumps({"seconds": seconds, "bytes": seen, "peak": peak_bytes(os.getpid())}))


if __name__ == "__main__":
    main()
