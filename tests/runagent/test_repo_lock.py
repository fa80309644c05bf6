"""The lock that all processes on one repository share."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from contracts.errors import RepositoryRefused, Unavailable
from runagent.git.repo_lock import LOCK_NAME, hold_repo_lock
from tests.support.unprivileged import PROJECT, open_folder, run_unprivileged

HOLDER = """
import sys
from runagent.git.repo_lock import hold_repo_lock
with hold_repo_lock(sys.argv[1], 10):
    print("held", flush=True)
    sys.stdin.read()
"""


def start_holder(folder: Path) -> subprocess.Popen[bytes]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    return holder


def end(holder: subprocess.Popen[bytes]) -> None:
    holder.kill()
    holder.communicate(timeout=30)


def test_a_lock_held_by_another_process_is_refused_after_the_wait(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    try:
        began = time.monotonic()
        with pytest.raises(Unavailable, match=LOCK_NAME), hold_repo_lock(str(tmp_path), 0.3):
            pytest.fail("two held it")
        assert 0.25 < time.monotonic() - began < 10
    finally:
        end(holder)


def test_a_killed_holder_leaves_no_stale_lock_behind(tmp_path: Path) -> None:
    holder = start_holder(tmp_path)
    end(holder)
    assert (tmp_path / LOCK_NAME).exists(), "the file stays; the lock does not"
    with hold_repo_lock(str(tmp_path), 0.0):
        pass


def test_one_of_many_threads_holds_the_lock_at_a_time(tmp_path: Path) -> None:
    inside = 0
    most = 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with hold_repo_lock(str(tmp_path), 60):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (inside, most) == (0, 1)


def test_an_error_inside_gives_the_lock_up(tmp_path: Path) -> None:
    with pytest.raises(KeyError), hold_repo_lock(str(tmp_path), 1):
        raise KeyError
    with hold_repo_lock(str(tmp_path), 0.0):
        pass


def test_a_link_in_the_place_of_the_lock_file_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / LOCK_NAME).symlink_to(victim)
    with pytest.raises(RepositoryRefused) as caught, hold_repo_lock(str(tmp_path), 1):
        pytest.fail("held through a link")
    assert caught.value.code == "repo_unwritable"
    assert not victim.exists()


def test_a_git_folder_that_we_cannot_write_is_refused_with_the_remedy() -> None:
    code = """
import sys
from contracts.errors import RepositoryRefused
from runagent.git.repo_lock import hold_repo_lock
try:
    with hold_repo_lock(sys.argv[1], 1):
        print("held")
except RepositoryRefused as error:
    print(error.code, bool(error.remedy))
"""
    with open_folder() as folder:
        assert run_unprivileged(code, str(folder), home=folder) == "held\n", "the control"
        (folder / LOCK_NAME).unlink()
        folder.chmod(0o555)
        assert run_unprivileged(code, str(folder), home=folder) == "repo_unwritable True\n"
