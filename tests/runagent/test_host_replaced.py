"""A worktree that an agent puts something else in place of: nothing is started in the main checkout
and nothing there is taken for the agent's work."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from contracts.run_agent import CommandState, Status
from tests.support.agents.bench import GOOD, Bench, codes, git

ENDS = """echo '{"type":"result","subtype":"success","is_error":false,"result":"Done."}'\n"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def script(bench: Bench, body: str) -> None:
    """Make the agent `claude` a shell script."""
    program = bench.bin / "claude"
    program.write_text(f"#!/bin/bash\n{body}\n")
    program.chmod(0o755)


def to_main(bench: Bench) -> str:
    """Return shell text that puts a link to the main checkout in place of the worktree."""
    return f'place="$PWD"; cd /; rm -rf "$place"; ln -s "{bench.repo}" "$place"\n'


def test_no_validator_runs_in_a_main_checkout_that_the_worktree_was_linked_to(bench: Bench) -> None:
    script(bench, to_main(bench) + ENDS)
    result = bench.run("claude", validateCommand="touch ran")
    assert not (bench.repo / "ran").exists()
    assert git(bench.repo, "status", "--porcelain") == ""
    assert result.status is Status.FAILED
    assert result.needs_human_review
    assert result.validation.commands[0].state is CommandState.NOT_RUN
    assert "replaced" in result.tests_attempted[0]
    assert "evidence_incomplete" in codes(result)


def test_no_project_of_the_main_checkout_is_built_in_its_place(bench: Bench) -> None:
    (bench.repo / "main.sln").write_text("")
    (bench.bin / "dotnet").write_text(f"#!/bin/sh\ntouch {bench.folder}/built\n")
    (bench.bin / "dotnet").chmod(0o755)
    script(bench, to_main(bench) + ENDS)
    result = bench.run("claude")
    assert not (bench.folder / "built").exists()
    assert result.needs_human_review
    assert result.tests_attempted == ()


def test_no_second_attempt_is_made_in_a_main_checkout(bench: Bench) -> None:
    script(bench, f'pwd -P >> {bench.folder}/places\ntouch "$PWD/was-here"\n{to_main(bench)}exit 1')
    result = bench.run("claude")
    assert len((bench.folder / "places").read_text().splitlines()) == 1
    assert not (bench.repo / "was-here").exists()
    assert result.status is Status.FAILED
    assert "launch_refused" in codes(result)


def test_work_beside_a_linked_folder_of_worktrees_is_not_trusted(bench: Bench) -> None:
    agents = f"{bench.repo}-agents"
    script(
        bench, f"touch a; cd /; mv {agents} {agents}-moved; ln -s {agents}-moved {agents}\n{ENDS}"
    )
    result = bench.run("claude", validateCommand="true")
    assert result.needs_human_review
    assert result.validation.commands[0].state is CommandState.NOT_RUN


def test_a_stop_during_the_look_after_the_agent_is_never_a_completed_run(bench: Bench) -> None:
    class StopsAtTheLook:
        def __init__(self) -> None:
            self.cancelled = threading.Event()

        def phase(self, name: str) -> None:
            if name == "looking":
                self.cancelled.set()

        def agent_line(self, text: str) -> None:
            """Not of interest here."""

    watch = StopsAtTheLook()
    ports = {"watch": watch, "cancelled": watch.cancelled}
    result = bench.run("claude", GOOD, validateCommand="false", ports=ports)
    assert result.status is Status.FAILED
    assert "interrupted" in codes(result)
    assert result.changed_files == ("src/new.py",)


def test_what_the_validator_wrote_over_is_not_clean(bench: Bench) -> None:
    over = bench.run("claude", GOOD, validateCommand="echo other > src/new.py")
    assert over.status is Status.COMPLETED
    assert over.needs_human_review
    assert codes(over) == {"validator_rewrote"}


def test_a_pass_that_may_rest_on_what_the_validator_wrote_is_not_clean(bench: Bench) -> None:
    wrote = bench.run("claude", GOOD, validateCommand="echo log > log")
    assert wrote.status is Status.COMPLETED
    assert wrote.needs_human_review
    assert codes(wrote) == {"validator_wrote"}
    assert wrote.validator_changed_files == ("log",)
    cached = "mkdir -p .pytest_cache && echo x > .pytest_cache/log"
    clean = bench.run("claude", GOOD, validateCommand=cached)
    assert not clean.needs_human_review, "what tools keep for the next time is no alarm"
    assert clean.validator_changed_files == (".pytest_cache/log",)


@pytest.mark.parametrize("fields", [{"branch": "nowhere"}, {"repo": "/nonexistent"}])
def test_a_refused_run_leaves_no_folder_of_its_own(bench: Bench, fields: dict[str, str]) -> None:
    order = bench.order("claude")
    bench.runtime_dir(order.job_id).parent.mkdir(parents=True)
    result = bench.run("claude", GOOD, job_id=order.job_id, **fields)
    assert result.status is Status.FAILED
    assert not bench.runtime_dir(order.job_id).exists()
    assert bench.is_untouched()


def test_megabytes_of_terminal_openings_cost_no_time(bench: Bench) -> None:
    script(bench, """yes "$(printf '\\302\\235')" | tr -d '\\n' | head -c 1000000; echo; exit 1""")
    assert bench.run("claude", limit_s=60).durationSeconds < 20
