"""A run that looks around: planted programs set the repository aside, and a failure of that is
told."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts.errors import RepositoryRefused, Unavailable
from runagent.around.watched import WatchList
from tests.support.agents.bench import Bench, codes

ENDS = """echo '{"type":"result","subtype":"success","is_error":false,"result":"Done."}'\n"""


class Remembers:
    """A RepoTrust of this test: it keeps what it is told, or is not there."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.told: list[tuple[str, ...]] = []

    def check(self, common_dir: str) -> None:
        if self.told:
            raise RepositoryRefused(f"{common_dir} was set aside", code="repo_quarantined")

    def quarantine(self, common_dir: str, *, repo: str, job_id: str, why: tuple[str, ...]) -> None:
        if not self.works:
            raise Unavailable("the journal is locked")
        self.told.append(why)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def script(bench: Bench, body: str) -> None:
    program = bench.bin / "claude"
    program.write_text(f"#!/bin/bash\n{body}\n{ENDS}")
    program.chmod(0o755)


def test_a_planted_hook_sets_the_repository_aside(bench: Bench) -> None:
    script(bench, f"touch a; echo x > {bench.repo}/.git/hooks/pre-push")
    trust = Remembers()
    ports = {"watch_list": WatchList(), "trust": trust}
    first = bench.run("claude", validateCommand="true", ports=ports)
    assert {"repo_quarantined", "tampered"} <= codes(first)
    assert trust.told == [("hooks/pre-push",)]
    second = bench.run("claude", validateCommand="true", ports=ports)
    assert codes(second) == {"repo_quarantined"}
    assert second.worktreePath == ""


def test_a_repository_that_could_not_be_set_aside_is_told(bench: Bench) -> None:
    script(bench, f"touch a; echo x > {bench.repo}/.git/hooks/pre-push")
    ports = {"watch_list": WatchList(), "trust": Remembers(works=False)}
    result = bench.run("claude", validateCommand="true", ports=ports)
    assert {"repo_quarantined", "unavailable"} <= codes(result)
    assert any("could not be set aside" in risk for risk in result.known_risks)


def test_drift_stands_in_the_result(bench: Bench) -> None:
    script(bench, f"touch a; echo x > {bench.repo}/planted")
    noted = bench.run(
        "claude", validateCommand="true", ports={"watch_list": WatchList(checkout_is_noted=True)}
    )
    assert not noted.needs_human_review
    assert [note.code for note in noted.notes] == ["checkout_changed"]
    script(bench, f"touch a; echo y > {bench.repo}/planted")
    told = bench.run("claude", validateCommand="true", ports={"watch_list": WatchList()})
    assert codes(told) == {"checkout_changed"}
