from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

_OPEN = """
import sys, time
from pathlib import Path
from dispatch.sent import SentJobs
while time.time() < float(sys.argv[2]):
    pass
assert SentJobs(Path(sys.argv[1])).find("a" * 20) is None
"""


def test_processes_that_open_one_fresh_record_at_once_all_succeed(tmp_path: Path) -> None:
    for number in range(3):
        file, start = tmp_path / str(number) / "sent.sqlite3", time.time() + 3
        opened = [
            subprocess.Popen(
                [sys.executable, "-c", _OPEN, str(file), str(start)],
                stderr=subprocess.PIPE,
                text=True,
                env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
            )
            for _ in range(8)
        ]
        said = [process.communicate(timeout=60)[1] for process in opened]
        assert [process.returncode for process in opened] == [0] * 8, "\n".join(said)
