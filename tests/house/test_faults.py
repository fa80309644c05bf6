"""The faults have one name each: in the table below, in the runbook, and as the tests that inject
them. None of these tests may be skipped where nothing may be skipped."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_tree import PROJECT, parse, product_files, relative

# The fault, as the runbook names it -> the modules of tests/faults that inject it.
FAULTS: dict[str, tuple[str, ...]] = {
    "Double delivery": ("test_double_delivery",),
    "Listener or run killed": (
        *("test_listener_or_run_killed", "test_no_orphans", "test_boxed_commits"),
    ),
    "A listener taken for dead": ("test_orphan_fenced",),
    "Host asleep": ("test_host_asleep",),
    "Broker down": ("test_broker_down",),
    "Broker restarted": ("test_broker_restarted",),
    "Broker emptied": ("test_broker_emptied", "test_sender_after_loss"),
    "Sender killed": ("test_sender_faults",),
    "Lost in the queue": ("test_lost_in_the_queue",),
    "Broker out of memory": ("test_broker_out_of_memory",),
    "Disk full": ("test_disk_full",),
    "Git locks": ("test_git_locks",),
    "Garbage collection": ("test_garbage_collection", "test_trees_in_parallel"),
    "Clock jumps": ("test_clock_jumps",),
    "Drain": ("test_drain",),
    "A job taken back": ("test_cancelled",),
    "Poison in the queue": ("test_poison_in_the_queue",),
    "Huge output or a huge tree": ("test_huge_output_or_a_huge_tree",),
    "Stuck agent": ("test_stuck_agent",),
    "Zombies": ("test_no_zombies",),
    "Journal lost or damaged": ("test_journal_faults",),
    "A lane whose hosts cannot all do a job": ("test_lane_faults", "test_lane_refusals"),
    "Nobody serves the lane": ("test_nobody_serves",),
    "Limits of RQ": ("test_limits_of_rq",),
    "Everything at once": ("test_soak",),
}
_FOLDER = PROJECT / "tests" / "faults"
_RUNBOOK = (PROJECT / "ops" / "runbook.md").read_text(encoding="utf-8")
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SAID = re.compile(r"^    (.+)$", re.MULTILINE)  # indented lines are words of our own output
_GAP = re.compile(r"…|\s*\b\w+=(?=…|\")|\"")


def _sections() -> dict[str, str]:
    return dict(_SECTION.findall(_RUNBOOK))


def _tests_in(module: str) -> list[str]:
    functions = ast.walk(parse(_FOLDER / f"{module}.py"))
    return [
        node.name
        for node in functions
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def test_the_runbook_has_a_section_for_each_fault_and_no_other() -> None:
    assert sorted(name for name, _ in _SECTION.findall(_RUNBOOK)) == sorted(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_injected_by_a_test(name: str) -> None:
    assert all(_tests_in(module) for module in FAULTS[name])


def test_every_module_of_faults_belongs_to_one_fault() -> None:
    named = [module for modules in FAULTS.values() for module in modules]
    assert sorted(named) == sorted(path.stem for path in _FOLDER.glob("test_*.py"))


@pytest.mark.parametrize("name", FAULTS)
def test_a_section_says_what_one_sees_what_one_does_and_where_it_is_tested(name: str) -> None:
    text = _sections().get(name, "")
    assert "Looks like:" in text
    assert "Do:" in text
    for module in FAULTS[name]:
        assert f"`tests/faults/{module}.py`" in text


def _spoken() -> str:
    """Return every text that stands in the product's code, the fixed parts of f-strings too."""
    texts = [
        str(node.value)
        for path in product_files()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join(texts)


def test_what_the_runbook_quotes_is_what_the_product_says() -> None:
    spoken = _spoken()
    foreign = [
        f"{name}: {line}: {part.strip()!r}"
        for name, text in _sections().items()
        for line in _SAID.findall(text)
        for part in _GAP.split(line)
        if part.strip() and part.strip() not in spoken
    ]
    assert not foreign, "the runbook quotes words that no code of ours says"


# --- no skips ----------------------------------------------------------------------------------
_CONFTEST = """
from tests.support.no_skips import pytest_make_collect_report, pytest_runtest_makereport
"""
_SKIPPING = """
import pytest

@pytest.mark.skipif(True, reason="by mark")
def test_that_is_skipped_by_a_mark():
    pass

def test_that_skips_itself_as_it_runs():
    pytest.skip("by call")

@pytest.fixture
def missing():
    pytest.skip("by fixture")

def test_that_is_skipped_by_its_fixture(missing):
    pass

def test_that_runs():
    pass
"""
_SKIPPED_WHOLE = """
import pytest
pytest.skip("as a whole", allow_module_level=True)
"""


def _run_tests(folder: Path, ci: str) -> subprocess.CompletedProcess[str]:
    words = ("-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--rootdir", str(folder))
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(folder)],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join([str(PROJECT), *(item for item in sys.path if item)]),
            "CI": ci,
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(("text", "skips"), [(_SKIPPING, 3), (_SKIPPED_WHOLE, 1)])
def test_a_skip_below_the_hooks_fails_in_ci_and_is_a_skip_at_a_desk(
    text: str, skips: int, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_skipping.py").write_text(text)
    at_a_desk = _run_tests(tmp_path, "")
    assert f"{skips} skipped" in at_a_desk.stdout, at_a_desk.stdout + at_a_desk.stderr
    guarding = _run_tests(tmp_path, "true")
    assert guarding.returncode != 0, guarding.stdout
    assert "skipped" not in guarding.stdout.splitlines()[-1]
    assert guarding.stdout.count("this run must not skip") >= skips


def test_the_faults_hang_below_the_hooks() -> None:
    names = {
        alias.name
        for node in ast.walk(parse(_FOLDER / "conftest.py"))
        if isinstance(node, ast.ImportFrom) and node.module == "tests.support.no_skips"
        for alias in node.names
    }
    assert names == {"pytest_runtest_makereport", "pytest_make_collect_report"}, relative(_FOLDER)
