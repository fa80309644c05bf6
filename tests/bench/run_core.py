"""The verb `run-agent` below its command line, as a child of the bench: a payload a line on stdin,
a line with the seconds and the result on stdout. The line `tend` has spares made, as the listener
does between its jobs.

What is timed is what the verb does for a run: settings, sandbox, journal, the run, its end. What is
not is the start of an interpreter, which `cli_start` measures, and which a listener does not pay.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import time

from contracts.clock import SystemClock
from contracts.ids import new_job_id
from runagent.process import system_runner
from worker.journal.journal import Journal
from worker.runs.local_run import run_here
from worker.settings import load_host_settings, process_environment


def main() -> None:
    """Run until stdin ends."""
    for line in sys.stdin:
        answer = {"spares": _tended()} if line.strip() == "tend" else _run(json.loads(line))
        print(json.dumps(answer), flush=True)


def _run(payload: dict[str, object]) -> dict[str, object]:
    began = time.perf_counter()
    result = run_here(payload, job_id=new_job_id(), stderr=sys.stderr)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "result": json.loads(result.to_json()), "spares": _spares()}


def _tended() -> int:
    """Have the missing spares made and return how many stand; -1 where none are ever made."""
    try:
        module = importlib.import_module("worker.trees.spare_keeper")
    except ImportError:
        return -1
    settings = load_host_settings()
    with contextlib.closing(Journal(settings.journal_file, SystemClock())) as journal:
        keeper = module.spare_keeper(
            settings,
            journal,
            environment=process_environment(),
            runner=system_runner(),
            clock=SystemClock(),
            say=lambda what, **details: print(what, details, file=sys.stderr),
        )
        keeper.tend()
    return _spares()


def _spares() -> int:
    """Return how many spares stand ready."""
    with contextlib.closing(Journal(load_host_settings().journal_file, SystemClock())) as journal:
        spares = getattr(journal, "spares", None)
        return sum(record.is_ready for record in spares.all()) if spares else 0


if __name__ == "__main__":
    main()
