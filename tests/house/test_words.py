"""What no file of the project says, and what no test of a real thing uses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.support.source_tree import (
    PROJECT,
    all_text_files,
    names_used,
    parse,
    relative,
)

# Put together here, so that this file does not hold them itself.
_UNFINISHED = re.compile(
    "|".join(
        (
            r"\bTO" + "DO" + r"\b",
            r"\bFIX" + "ME" + r"\b",
            "NotImplemented" + "Error",
            "xfa" + r"il\(",
        )
    )
)
_BROAD_KILLS = re.compile(r"\bp" + "kill|\bkill" + "all|" + r"kill -9 -" + r"1\b")
_REAL_THINGS = ("e2e", "faults", "hostile")
_STAND_INS = {
    "unittest.mock",
    "pytest_mock",
    "fakeredis",
    "runagent.process.ScriptedRunner",
}
_PATCHES = {"monkeypatch.setattr", "monkeypatch.setitem", "monkeypatch.delattr", "mocker.patch"}


def test_nothing_is_left_unfinished() -> None:
    found = [
        f"{relative(path)}:{number}"
        for path in all_text_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if _UNFINISHED.search(line)
    ]
    assert not found


def test_nothing_kills_processes_by_a_pattern() -> None:
    found = [
        relative(path)
        for path in all_text_files()
        if _BROAD_KILLS.search(path.read_text(errors="replace"))
    ]
    assert not found


def _tests_of_real_things() -> list[Path]:
    return sorted(
        path for name in _REAL_THINGS for path in (PROJECT / "tests" / name).rglob("*.py")
    )


def test_tests_of_real_things_use_no_stand_in() -> None:
    found = {}
    for path in _tests_of_real_things():
        tree = parse(path)
        used = names_used(tree)
        calls = {
            f"{node.func.value.id}.{node.func.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        }
        stand_ins = {name for name in used if any(name.startswith(s) for s in _STAND_INS)}
        if stand_ins | (calls & _PATCHES):
            found[relative(path)] = stand_ins | (calls & _PATCHES)
    assert not found


def _calls_of(path: Path, name: str) -> list[int]:
    return [
        node.lineno
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and f"{node.func.value.id}.{node.func.attr}" == name
    ]


# A platform that lacks the thing, or a machine where nobody may do it: nothing else is a reason.
_REASONS = ("platform", "only root")


@pytest.mark.parametrize("path", sorted((PROJECT / "tests").rglob("test_*.py")), ids=relative)
def test_a_test_skips_only_for_a_platform_or_through_require_tool(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [
        number
        for number in _calls_of(path, "pytest.skip")
        if not any(reason in " ".join(lines[number - 3 : number + 1]) for reason in _REASONS)
    ]
    assert not bare, f"pytest.skip without a platform's reason at lines {bare}"


def test_no_file_names_a_place_of_somebodys_machine() -> None:
    home = re.compile(r"(?<![\w.$}])/(root|home)/(?!me\b|you\b|alice\b|user\b)[\w.-]+")
    found = [
        relative(path) for path in all_text_files() if home.search(path.read_text(errors="replace"))
    ]
    assert not found
