"""Huge output or a huge tree: memory stays flat, the result stays small, the job ends.

The programs below are agents of a whole run; what is measured is the host's own process.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.desk import Desk, Done

MEMORY_MAX_BYTES = 200_000_000
RESULT_MAX_BYTES = 1024 * 1024
WHOLE = 1024 * 1024  # what is kept of a stream

YES = """
yes = subprocess.Popen(["yes", "y" * 200])
time.sleep(4)
yes.kill()
yes.wait()
print()  # it was cut off inside a line
Path("new.py").write_text("x")
finish("I wrote new.py.")
"""
YES_ON_STDERR = YES.replace('"y" * 200]', '"y" * 200], stdout=2')
ONE_LINE = """
Path("new.py").write_text("x")
for _ in range(500): sys.stdout.write("x" * 1_000_000)
print()
finish("I wrote new.py.")
"""
MANY_FILES = """
for folder in range(100):
    place = Path(f"made/{folder:03}")
    place.mkdir(parents=True)
    for number in range(1_000):
        os.close(os.open(place / f"file-{number:04}.txt", os.O_CREAT | os.O_WRONLY))
finish("I made a hundred thousand files.")
"""
SPARSE = """
with open("sparse.bin", "wb") as file:
    file.truncate(5_000_000_000)
Path("new.py").write_text("x")
finish("I wrote new.py.")
"""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def assert_small(done: Done) -> None:
    assert done.peak_bytes < MEMORY_MAX_BYTES, f"{done.peak_bytes:,} bytes of memory"
    assert len(done.stdout.encode()) < RESULT_MAX_BYTES


@pytest.mark.parametrize("agent", [YES, YES_ON_STDERR], ids=["stdout", "stderr"])
def test_yes_for_seconds_costs_no_memory_and_the_end_is_kept(agent: str, desk: Desk) -> None:
    desk.agent(agent)
    done = desk.run("--validate-cmd", "true", seconds=170)
    assert_small(done)
    assert done.result["status"] == "completed"
    assert done.result["summary"] == "I wrote new.py."
    assert len(desk.raw_output(done)) <= WHOLE


def test_one_line_of_five_hundred_megabytes_costs_no_memory(desk: Desk) -> None:
    """K46."""
    desk.agent(ONE_LINE)
    done = desk.run("--validate-cmd", "true", seconds=170)
    assert_small(done)
    assert done.result["summary"] == "I wrote new.py."
    assert len(desk.raw_output(done)) == WHOLE


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_thousand_new_files_are_counted_and_the_list_is_cut(desk: Desk) -> None:
    desk.agent(MANY_FILES)
    done = desk.run("--validate-cmd", "true", seconds=800)
    assert_small(done)
    assert done.result["changed_files_total"] == 100_000
    assert 0 < len(done.result["changed_files"]) < 100_000
    assert "truncated" in done.codes
    assert done.result["status"] == "completed"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_sparse_file_of_five_gigabytes_ends_the_job_in_time(desk: Desk) -> None:
    desk.agent(SPARSE)
    done = desk.run("--validate-cmd", "true", seconds=800)
    assert_small(done)
    assert done.result["status"] == "completed"
    assert set(done.result["changed_files"]) == {"new.py", "sparse.bin"}
