"""Removing a folder that an agent made: what cannot be removed is told in one kind of error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runagent.trees.tree_removal import remove_child

_DEEP = "import os\nfor _ in range(1500):\n os.mkdir('d'); os.chdir('d')"


def test_folders_deeper_than_recursion_are_told_as_an_error_of_the_disk(tmp_path: Path) -> None:
    place = tmp_path / "tree"
    place.mkdir()
    subprocess.run([sys.executable, "-c", _DEEP], cwd=place, check=True)
    try:
        with pytest.raises(OSError, match=r"deep|Too many open files"):
            remove_child(str(tmp_path), "tree")
    finally:
        subprocess.run(["rm", "-rf", "--", place], check=True)


def test_a_folder_that_is_not_there_is_removed_already(tmp_path: Path) -> None:
    remove_child(str(tmp_path), "tree")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_only_a_direct_child_is_removed(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="direct child"):
        remove_child(str(tmp_path), name)
