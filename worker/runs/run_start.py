"""The start of a run process: all that a run needs is loaded with the collector out of the way.

A module of its own, since it has to act before the first of the others is loaded. Starts nothing
and reads nothing.
"""

from __future__ import annotations

from dispatch.collecting import collect_as_usual, collect_seldom


def main() -> None:
    """Load what a run needs, and run the order on standard input."""
    collect_seldom()
    from worker.runs.run_process import main as run

    collect_as_usual()
    run()
