"""Repositories that were set aside: refused until a person has looked."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from contracts.clock import ManualClock, SystemClock
from contracts.errors import RepositoryRefused
from dispatch.settings import HOME_VARIABLE
from worker.commands import repo as verb
from worker.commands.repo import command
from worker.journal.journal import Journal
from worker.journal.repo_trust import JournalRepoTrust


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "fleet"))
    return tmp_path / "fleet"


@contextlib.contextmanager
def repositories(home: Path) -> Iterator[JournalRepoTrust]:
    with contextlib.closing(Journal(home / "state" / "journal.sqlite3", SystemClock())) as journal:
        yield journal.repositories


def set_aside(home: Path, repo: Path, *why: str) -> None:
    with repositories(home) as known:
        known.quarantine(f"{repo}/.git", repo=str(repo), job_id="JOB-1", why=why)


def run(*words: str, text: str | None = None) -> Result:
    return CliRunner().invoke(command, list(words), input=text, standalone_mode=True)


def test_a_repository_is_refused_from_its_quarantine_to_its_trust(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3", ManualClock())
    known = journal.repositories
    known.check("/r/.git")
    known.quarantine("/r/.git", repo="/r", job_id="J1", why=("config: core.hookspath", "hooks/x"))
    known.quarantine("/r/.git", repo="/r", job_id="J2", why=("hooks/x", "hooks/\x1b[2Jy"))
    with pytest.raises(RepositoryRefused) as refused:
        known.check("/r/.git")
    assert refused.value.code == "repo_quarantined"
    for words in ("core.hookspath", "hooks/y", "J1", "fleet-dispatch repo trust /r"):
        assert words in str(refused.value)
    known.check("/other/.git")
    assert known.trust("/r/.git")
    assert not known.trust("/r/.git")
    known.check("/r/.git")
    record = known.find("/r/.git")
    assert record is not None
    assert record.trusted == ("config: core.hookspath", "hooks/x", "hooks/y")
    known.quarantine("/r/.git", repo="/r", job_id="J3", why=("hooks/z",))
    again = known.find("/r/.git")
    assert again is not None
    assert (again.job, again.why) == ("J3", ("hooks/z",))
    journal.close()


def test_many_planted_settings_are_named_in_part(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.sqlite3", ManualClock())
    many = tuple(f"hooks/{number}" for number in range(300))
    journal.repositories.quarantine("/r/.git", repo="/r", job_id="J", why=many)
    with pytest.raises(RepositoryRefused, match="and 95 more"):
        journal.repositories.check("/r/.git")
    journal.close()


def test_the_list_has_what_was_ever_set_aside(home: Path, tmp_path: Path) -> None:
    assert json.loads(run("list", "--json").stdout) == {"repositories": []}
    for name in ("b", "a"):
        set_aside(home, tmp_path / name, "config: alias.st")
    run("trust", str(tmp_path / "a"), "--yes", "--json")
    rows = json.loads(run("list", "--json").stdout)["repositories"]
    assert [(Path(row["repo"]).name, row["state"]) for row in rows] == [
        ("b", "quarantined"),
        ("a", "trusted"),
    ]
    assert "alias.st" in run("list").stdout


def test_the_status_of_a_repository_is_an_exit_code_too(home: Path, tmp_path: Path) -> None:
    repo = tmp_path / "r"
    unknown = run("status", str(repo), "--json")
    assert (unknown.exit_code, json.loads(unknown.stdout)["state"]) == (0, "trusted")
    assert "jobs may run" in run("status", str(repo)).stdout
    set_aside(home, repo, "hooks/pre-push")
    told = run("status", str(repo))
    assert told.exit_code == 2
    assert "hooks/pre-push" in told.stdout
    known = run("status", f"{repo}/.git", "--json")
    assert (known.exit_code, json.loads(known.stdout)["state"]) == (2, "quarantined")


def test_trust_shows_what_changed_and_asks_a_person(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "r"
    set_aside(home, repo, "config: core.fsmonitor")
    nobody = run("trust", str(repo))
    assert nobody.exit_code == 2
    assert "--yes" in nobody.stderr
    assert "core.fsmonitor" in nobody.stdout
    monkeypatch.setattr(verb, "_is_terminal", lambda: True)
    assert run("trust", str(repo), text="n\n").exit_code == 2
    assert run("status", str(repo)).exit_code == 2
    yes = run("trust", str(repo), text="y\n")
    assert yes.exit_code == 0, yes.output
    assert "trusted" in yes.stdout
    assert run("status", str(repo)).exit_code == 0
    twice = run("trust", str(repo), "--yes", "--json")
    assert twice.exit_code == 2
    assert json.loads(twice.stdout)["error"]["code"] == "not_quarantined"
