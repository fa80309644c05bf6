"""What a run refuses, and that nothing half made is left of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contracts.errors import Unavailable
from contracts.run_agent import AgentName, RunAgentResult, Status
from runagent.agents import AgentPreset
from tests.support.agents.bench import GOOD, PROGRAMS, Bench, codes, git, make_repository

NINE = [
    "status",
    "summary",
    "changed_files",
    "tests_attempted",
    "known_risks",
    "needs_human_review",
    "agent",
    "durationSeconds",
    "worktreePath",
]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def assert_refused(bench: Bench, result: RunAgentResult, agent: str = "claude") -> None:
    document = json.loads(result.to_json())
    assert all(document[key] is not None for key in NINE)
    assert result.status is Status.FAILED
    assert result.needs_human_review
    assert (result.worktreePath, result.attempts) == ("", 0)
    assert bench.calls(agent) == []
    assert bench.is_untouched()


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"agent": "nobody"}, "agent"),
        ({"task": "   "}, "task"),
        ({"task": "a\0b"}, "task"),
        ({"branch": "--orphan"}, "branch"),
        ({"branch": "a..b"}, "branch"),
        ({"branch": "nowhere"}, "nowhere"),
        ({"repo": "relative/path"}, "repo"),
        ({"repo": "/nonexistent/repo"}, "/nonexistent/repo"),
    ],
)
def test_a_bad_request_is_a_failed_result_that_says_what_is_wrong(
    bench: Bench, fields: dict[str, Any], word: str
) -> None:
    agent = fields.pop("agent", "claude")
    order = bench.order(agent, **fields)
    from runagent.host import run_agent

    result = run_agent(order, bench.ports(order.job_id))
    assert word in result.summary
    assert_refused(bench, result)


def test_all_problems_are_told_at_once(bench: Bench) -> None:
    result = bench.run("claude", task=" ", branch="-x", repo="relative")
    assert {risk.partition(":")[0] for risk in result.known_risks} == {"task", "branch", "repo"}


def test_a_folder_that_is_no_repository_is_refused(bench: Bench, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert_refused(bench, bench.run("claude", repo=str(plain)))
    assert list(plain.iterdir()) == []


@pytest.mark.parametrize("agent", [name.value for name in AgentName])
def test_a_missing_cli_is_named_with_the_way_to_provide_it(bench: Bench, agent: str) -> None:
    (bench.bin / PROGRAMS[agent]).unlink()
    bench.environment["PATH"] = f"{bench.bin}:/usr/bin:/bin"
    result = bench.run(agent)
    assert f"{PROGRAMS[agent]} is not on PATH" in result.summary
    assert f"[agents.{agent}]" in result.summary
    assert_refused(bench, result, agent)


def test_a_cli_in_the_repository_is_never_the_agent(bench: Bench) -> None:
    (bench.bin / "claude").rename(bench.repo / "claude")
    git(bench.repo, "add", "claude")
    git(bench.repo, "commit", "-q", "-m", "a trap")
    bench.environment["PATH"] = f".::{bench.repo.name}:/usr/bin:/bin"
    assert_refused(bench, bench.run("claude"))


def test_a_relative_command_is_refused(bench: Bench) -> None:
    presets = {AgentName.CLAUDE: AgentPreset(("./claude",), ())}
    result = bench.run("claude", ports={"presets": presets})
    assert "relative path" in result.summary
    assert_refused(bench, result)


def test_a_cli_that_cannot_be_started_leaves_nothing(bench: Bench) -> None:
    (bench.bin / "claude").write_text("#!/no/such/interpreter\n")
    result = bench.run("claude")
    assert "agent_not_started" in codes(result)
    assert_refused(bench, result)


def test_a_runtime_folder_that_cannot_be_made_stops_the_run_before_anything(
    bench: Bench, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    result = bench.run("claude", ports={"runtime_dir": str(tmp_path / "file" / "job")})
    assert "launch_refused" in codes(result)
    assert_refused(bench, result)


def test_a_prompt_that_vanishes_before_the_retry_stops_it_and_keeps_the_first_work(
    bench: Bench,
) -> None:
    order = bench.order("claude")
    prompt = bench.runtime_dir(order.job_id) / "prompt"
    steps = (("write", "half.txt", "half"), ("remove", str(prompt)), ("exit", 1))
    result = bench.run("claude", steps, job_id=order.job_id)
    assert result.status is Status.FAILED
    assert "launch_refused" in codes(result)
    assert len(bench.calls("claude")) == 1
    assert result.changed_files == ("half.txt",)
    assert Path(result.worktreePath).is_dir()


def test_a_record_that_cannot_be_written_means_that_nothing_starts(bench: Bench) -> None:
    def full(_state: str, _attempt: int, _why: str) -> None:
        raise Unavailable("the journal is full", remedy="make room")

    result = bench.run("claude", ports={"record": full})
    assert "the journal is full" in result.summary
    assert_refused(bench, result)


def test_a_mistake_of_ours_is_a_failed_result_and_its_words_stay_in_the_log(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_state: str, _attempt: int, _why: str) -> None:
        raise RuntimeError("password=hunter2")

    result = bench.run("claude", ports={"record": broken})
    assert "internal_error" in codes(result)
    assert "hunter2" not in result.to_json()
    assert "RuntimeError" in result.summary
    assert [record for record in caplog.records if record.levelname == "ERROR"]
    assert_refused(bench, result)


def test_a_mistake_of_ours_after_the_agent_keeps_its_work(bench: Bench) -> None:
    def broken(state: str, _attempt: int, _why: str) -> None:
        if state == "agent_done":
            raise RuntimeError

    result = bench.run("claude", GOOD, ports={"record": broken}, validateCommand="true")
    assert result.status is Status.FAILED
    assert {"internal_error", "evidence_missing"} <= codes(result)
    assert (Path(result.worktreePath) / "src/new.py").exists()


def test_a_watcher_that_breaks_does_not_break_the_run(bench: Bench) -> None:
    class Broken:
        def phase(self, name: str) -> None:
            raise RuntimeError

        def agent_line(self, text: str) -> None:
            raise RuntimeError

    assert bench.run("claude", ports={"watch": Broken()}).status is Status.COMPLETED


def test_a_repository_path_with_spaces_and_accents_works(bench: Bench, tmp_path: Path) -> None:
    repo = make_repository(tmp_path / "mes d\u00e9p\u00f4ts $x" / "le d\u00e9p\u00f4t")
    result = bench.run("codex", GOOD, repo=str(repo), validateCommand="test -f src/new.py")
    assert result.status is Status.COMPLETED
    assert bench.calls("codex")[0]["place"] == result.worktreePath
