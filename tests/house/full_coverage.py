"""Fails unless what decides over yes and no is covered to the last branch.

Reads the coverage data that `make test` left; runs no tests itself.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

# Package folders and files: the wire, every verdict, and the queue's gate.
FULL = ("contracts/", "validation/", "worker/sealed.py")


def read_gaps(report: dict[str, object]) -> list[str]:
    """Return `file: lines, branches` for each file under FULL that is not covered whole."""
    files = report["files"]
    assert isinstance(files, dict)
    gaps = []
    for name, entry in sorted(files.items()):
        path = name.replace("\\", "/")
        lines, branches = entry["missing_lines"], entry.get("missing_branches", [])
        if path.startswith(FULL) and (lines or branches):
            gaps.append(f"{path}: lines {lines}, branches {branches}")
    return gaps


def main() -> int:
    """Print the gaps; return 1 if there are any."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        command = [
            sys.executable,
            "-m",
            "coverage",
            "json",
            "--fail-under=0",
            "-q",
            "-o",
            str(path),
        ]
        subprocess.run(command, check=True)
        gaps = read_gaps(json.loads(path.read_text()))
    for gap in gaps:
        print(f"not covered whole: {gap}", file=sys.stderr)
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())
