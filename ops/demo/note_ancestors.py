"""Writes the ancestors of a process, nearest first, as a JSON list of process ids.

usage: note_ancestors.py FILE PID
The demo puts it in front of the agent: the agent's shim notes whose child it is, then becomes the
agent.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil

if __name__ == "__main__":
    ancestors = [parent.pid for parent in psutil.Process(int(sys.argv[2])).parents()]
    Path(sys.argv[1]).write_text(json.dumps(ancestors))
