"""The raw ends of what was printed, kept on this host beside the job.

Owns their files in the job's private folder: `attempt-N.stdout`, `validation-N.stderr` and so on,
for their owner alone. Raw bytes stay on the host; what leaves it goes through the result. A full
disk costs only these files, never the run.
"""

from __future__ import annotations

import os
from pathlib import Path

from contracts.run_agent import Risk
from runagent.process import ProcessOutcome


def keep_tails(runtime_dir: str, name: str, outcome: ProcessOutcome) -> list[Risk]:
    """Write the last bytes of both streams of `outcome` to `runtime_dir` under `name`.

    Returns the risk `tails_not_kept` when the disk did not take them. Never raises OSError.
    """
    try:
        for stream, data in (("stdout", outcome.stdout), ("stderr", outcome.stderr)):
            path = Path(runtime_dir) / f"{name}.{stream}"
            path.unlink(missing_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"the raw output of {name} could not be kept ({reason})"
        return [Risk(code="tails_not_kept", message=message)]
    return []
