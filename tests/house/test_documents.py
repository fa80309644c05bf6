"""The documents keep up with the code: verbs, targets, decisions, changes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from contracts.errors import ExitCode
from dispatch.cli import VERBS
from dispatch.config_file import ConfigFile, parse_config
from tests.support.source_tree import PROJECT, all_text_files, relative
from validation.policy import HostPolicy, SenderPolicy, parse_policy

_VERB = re.compile(r"(?:^|[`$|(] ?|\bexec )fleet-dispatch ([a-z][a-z-]*)(?!\w)", re.MULTILINE)
_TARGET = re.compile(r"^([a-z][a-z0-9-]*):", re.MULTILINE)
_MAKE = re.compile(r"`make ([a-z][a-z0-9-]*)|^make ([a-z][a-z0-9-]*)", re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_README = (PROJECT / "README.md").read_text(encoding="utf-8")
_DOCUMENTS = [path for path in all_text_files() if path.suffix == ".md"]


def _targets() -> set[str]:
    return set(_TARGET.findall((PROJECT / "Makefile").read_text()))


def test_the_readme_shows_only_verbs_that_exist() -> None:
    assert set(_VERB.findall(_README)) <= set(VERBS)


def test_the_table_of_verbs_in_the_readme_is_complete() -> None:
    rows = set(re.findall(r"^\| `([a-z][a-z-]*)", _README, re.MULTILINE))
    assert rows == set(VERBS)


def test_the_readme_gives_every_exit_code() -> None:
    rows = {int(code) for code in re.findall(r"^\| (\d) \|", _README, re.MULTILINE)}
    assert rows == {code.value for code in ExitCode}


@pytest.mark.parametrize("path", _DOCUMENTS, ids=relative)
def test_a_document_names_only_make_targets_that_exist(path: Path) -> None:
    named = {a or b for a, b in _MAKE.findall(path.read_text(encoding="utf-8"))}
    assert named <= _targets()


@pytest.mark.parametrize("path", _DOCUMENTS, ids=relative)
def test_a_document_shows_only_verbs_that_exist(path: Path) -> None:
    assert set(_VERB.findall(path.read_text(encoding="utf-8"))) <= set(VERBS)


@pytest.mark.parametrize("path", _DOCUMENTS, ids=relative)
def test_a_link_between_documents_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not [link for link in _LINK.findall(text) if not (path.parent / link).exists()]


def test_every_decision_is_in_the_index_once_with_its_title() -> None:
    folder = PROJECT / "ops" / "adr"
    index = (folder / "README.md").read_text(encoding="utf-8")
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        assert index.count(f"]({path.name})") == 1, f"{path.name} is not in the index"
        assert title.partition(". ")[2] in index, f"the index has another title for {path.name}"


def test_every_decision_says_what_was_decided_and_what_it_costs() -> None:
    for path in sorted((PROJECT / "ops" / "adr").glob("[0-9]*.md")):
        headings = re.findall(r"^## (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert headings == ["Situation", "Decision", "What follows"], path.name


def test_the_changelog_has_a_place_for_the_next_change() -> None:
    assert "## Unreleased" in (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")


def _example_of(heading: str) -> str:
    page = (PROJECT / "docs" / "configuration.md").read_text(encoding="utf-8")
    return page.partition(heading)[2].partition("```toml\n")[2].partition("```")[0]


def test_the_example_of_the_settings_is_one_and_shows_every_section() -> None:
    config, keys = parse_config(_example_of("## config.toml"), "docs/configuration.md")
    assert config.host.name == "GAMINGPC"
    assert {key.partition(".")[0] for key in keys} == set(ConfigFile.model_fields)


def test_the_example_of_a_policy_is_one_and_shows_every_key() -> None:
    data = tomllib.loads(_example_of("## policy.toml"))
    policy = parse_policy(data)
    names = {field.alias or name for name, field in SenderPolicy.model_fields.items()}
    assert set(data["senders"]["alice"]) == names
    assert set(data) == set(HostPolicy.model_fields)
    assert policy.of("somebody")[0] == "*"
