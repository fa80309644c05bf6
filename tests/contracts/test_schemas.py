"""The exported JSON Schemas: golden, and additive only."""

from __future__ import annotations

import copy
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts import schemas
from contracts.schemas import main, schema_texts, write_schemas
from tests.support.samples import NINE_KEYS
from tests.support.schema_compat import breaking_changes

COMMITTED = Path(schemas.__file__).with_name("schema")
TYPES_OF_THE_NINE = {
    "status": None,  # a reference to the five
    "summary": "string",
    "changed_files": "array",
    "tests_attempted": "array",
    "known_risks": "array",
    "needs_human_review": "boolean",
    "agent": "string",
    "durationSeconds": "number",
    "worktreePath": "string",
}

Change = Callable[[dict[str, Any]], object]


def _committed(name: str) -> dict[str, Any]:
    schema = json.loads((COMMITTED / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(schema, dict)
    return schema


def test_the_committed_schemas_are_what_the_models_write() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in COMMITTED.iterdir()}
    assert on_disk == schema_texts(), "write them again: make schemas"


def test_the_schema_of_a_result_requires_exactly_the_nine_keys() -> None:
    schema = _committed("run_agent.result")
    assert sorted(schema["required"]) == sorted(NINE_KEYS)
    assert {k: schema["properties"][k].get("type") for k in NINE_KEYS} == TYPES_OF_THE_NINE
    assert schema["additionalProperties"] is True
    assert len(schema["$defs"]["Status"]["enum"]) == 5


def test_the_schema_of_a_request_has_exactly_the_contracts_fields_and_no_null() -> None:
    schema = _committed("run_agent.request")
    types = {name: field.get("type") for name, field in schema["properties"].items()}
    assert types == {
        "agent": "string",
        "task": "string",
        "repo": "string",
        "ticket": "string",
        "branch": "string",
        "mode": "string",
        "timeoutSec": "integer",
        "validateCommand": "string",
    }
    assert schema["required"] == ["agent", "task", "repo", "ticket"]
    assert schema["properties"]["agent"]["enum"] == ["codex", "claude", "gemini", "grok"]
    assert schema["additionalProperties"] is False
    assert "default" not in json.dumps(schema["properties"])


def test_the_schemas_are_written_by_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "made" / "here"
    assert main([str(folder)]) == 0
    assert {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()} == schema_texts()
    assert len(capsys.readouterr().out.splitlines()) == len(schema_texts())
    assert sorted(write_schemas(folder)) == sorted(folder.iterdir())


def test_the_command_without_a_folder_says_how_it_is_used(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


def test_the_command_runs_as_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["schemas", str(tmp_path)])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(schemas.__file__), run_name="__main__")
    assert caught.value.code == 0
    assert {path.name for path in tmp_path.iterdir()} == set(schema_texts())


def _rename(schema: dict[str, Any]) -> None:
    schema["properties"]["durationSec"] = schema["properties"].pop("durationSeconds")


BREAKING: dict[str, tuple[str, Change]] = {
    "a removed field": ("is gone", lambda s: s["properties"].pop("mode")),
    "a removed required field": ("is gone", lambda s: s["properties"].pop("summary")),
    "a renamed field": ("is gone", _rename),
    "a re-typed field": (
        "type string became integer",
        lambda s: s["properties"]["jobId"].update(type="integer"),
    ),
    "re-typed items": (
        "type string became integer",
        lambda s: s["properties"]["changed_files"].update(items={"type": "integer"}),
    ),
    "items without a type": (
        "of any type",
        lambda s: s["properties"]["changed_files"].pop("items"),
    ),
    "a list that became text": (
        "type array became string",
        lambda s: s["properties"]["renames"].update(type="string"),
    ),
    "a removed field of a part": (
        "is gone",
        lambda s: s["$defs"]["Risk"]["properties"].pop("code"),
    ),
    "a re-typed field of a part": (
        "type string became",
        lambda s: s["$defs"]["Rename"]["properties"].update({"from": {"type": "null"}}),
    ),
    "a removed status": ("without", lambda s: s["$defs"]["Status"]["enum"].remove("timed_out")),
    "a sixth status": ("other values", lambda s: s["$defs"]["Status"]["enum"].append("cancelled")),
    "a key no longer required": ("are required", lambda s: s["required"].remove("agent")),
    "a key newly required": ("are required", lambda s: s["required"].append("jobId")),
    "a number that may not be null any more": (
        "other types",
        lambda s: s["properties"]["exitCode"]["anyOf"].pop(),
    ),
    "another choice of types": (
        "became",
        lambda s: s["properties"]["exitCode"]["anyOf"].__setitem__(0, {"type": "string"}),
    ),
    "unknown fields refused": ("unknown fields", lambda s: s.update(additionalProperties=False)),
    "values of a map re-typed": (
        "became",
        lambda s: s["properties"]["paths_base64"].update(additionalProperties={"type": "integer"}),
    ),
}


@pytest.mark.parametrize(("why", "change"), BREAKING.values(), ids=BREAKING.keys())
def test_a_change_that_breaks_somebody_is_found(why: str, change: Change) -> None:
    old = _committed("run_agent.result")
    new = copy.deepcopy(old)
    change(new)
    found = breaking_changes(old, new)
    assert any(why in line for line in found), found


ADDITIONS: dict[str, Change] = {
    "nothing": lambda s: None,
    "a new field": lambda s: s["properties"].update(weather={"type": "string"}),
    "a new field of a part": lambda s: s["$defs"]["Risk"]["properties"].update(
        at={"type": "string"}
    ),
    "a new part": lambda s: s["$defs"].update(Box={"type": "object"}),
    "another description": lambda s: s.update(description="said better", title="R"),
    "another default": lambda s: s["properties"]["attempts"].update(default=1),
}


@pytest.mark.parametrize("change", ADDITIONS.values(), ids=ADDITIONS.keys())
def test_an_addition_breaks_nobody(change: Change) -> None:
    old = _committed("run_agent.result")
    new = copy.deepcopy(old)
    change(new)
    assert breaking_changes(old, new) == []


def test_a_schema_that_refers_to_itself_is_compared_once() -> None:
    tree = {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    }
    assert breaking_changes(tree, copy.deepcopy(tree)) == []
