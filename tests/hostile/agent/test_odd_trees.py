"""Trees that nobody would make by accident: each ends in a result that says so, within bounds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.tricked_desk import MODES, TrickedDesk, script_worked

FILES = 100_000
# The bound of the fault table for huge trees.
_RSS_MAX = 200 * 1024 * 1024
_PYTHON = 'exec python3 -IS -c "{0}"'

_ODD = {
    "socket": _PYTHON.format("import socket; socket.socket(socket.AF_UNIX).bind('door')"),
    "loop": "ln -s . here; ln -s b a; ln -s a b; mkdir d; ln -s ../d d/again",
    "any_name": _PYTHON.format(
        "import os\\n[os.close(os.open(bytes([n]) + b'x', os.O_CREAT)) "
        "for n in range(1, 256) if n != 47]"
    ).replace("\\n", "\n"),
    "unreadable": "mkdir shut; echo x > shut/x; chmod 0 shut; echo y > c.txt; chmod 0 c.txt",
    "whole_tree_shut": 'echo x > a.txt; chmod 0 "$PWD"',
    "sparse_giant": "truncate -s 5G huge; echo x > a.txt",
    "device": "mknod null c 1 3 2>/dev/null || mkfifo null; echo x > a.txt",
    "pipe_as_git": "rm .git; mkfifo .git; echo x > a.txt",
    "loop_as_git": "rm .git; ln -s .git .git; echo x > a.txt",
    "folder_as_git": "rm .git; mkdir .git; echo x > a.txt",
    "deep": _PYTHON.format(
        "import os\\nfor n in range(2000):\\n os.mkdir('d'); os.chdir('d')"
    ).replace("\\n", "\n"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", _ODD)
def test_an_odd_tree_ends_in_a_result(tmp_path: Path, name: str, mode: str) -> None:
    desk = TrickedDesk(tmp_path, mode)
    try:
        done = desk.run(_ODD[name])
    finally:
        for place in Path(f"{desk.repo}-agents").glob("*"):
            place.chmod(0o755)
            if name == "deep":  # whoever clears old temporary folders by recursion fails at it
                subprocess.run(["rm", "-rf", "--", place], check=True)
    assert "internal_error" not in done.codes
    assert done.code in (0, 4)
    assert done.result["needs_human_review"] or done.result["agent_changed_files"]
    json.dumps(done.result)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_flood_of_files_ends_in_a_bounded_result(tmp_path: Path) -> None:
    desk = TrickedDesk(tmp_path, "none")
    done = desk.run(
        _PYTHON.format(
            f"import os\nfor n in range({FILES}):\n"
            " if n % 1000 == 0: os.makedirs(f'd{n // 1000}')\n"
            " open(f'd{n // 1000}/{n}', 'w').close()"
        )
    )
    assert script_worked(done), done.stderr
    assert done.result["changed_files_total"] == FILES
    assert "truncated" in done.codes
    assert len(done.stdout) < 1024 * 1024
    assert done.peak_bytes < _RSS_MAX
