"""The verb `run-agent` below its command line, as a child of the bench: a payload a line on stdin,
a line with the seconds and the result on stdout.

What is timed is what the verb does for a run: settings, sandbox, journal, the run, its end. What is
not is the start of an interpreter, which `cli_start` measures, and which a listener does not pay.
"""

from __future__ import annotations

import json
import sys
import time

from contracts.ids import new_job_id
from worker.runs.local_run import run_here


def main() -> None:
    """Run until stdin ends."""
    for line in sys.stdin:
        payload = json.loads(line)
        began = time.perf_counter()
        result = run_here(payload, job_id=new_job_id(), stderr=sys.stderr)
        seconds = time.perf_counter() - began
        document = json.loads(result.to_json())
        print(json.dumps({"seconds": seconds, "result": document}), flush=True)


if __name__ == "__main__":
    main()
