"""What stock RQ's worker runs in the bench. Imported in each of its forks, so it imports little."""

import time


def nothing() -> None:
    """Do nothing."""


def stamp() -> float:
    """Return the wall's time at which this job started, in Unix seconds."""
    return time.time()
