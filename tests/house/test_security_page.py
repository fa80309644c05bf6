"""docs/security.md and the attacks belong together: what it names is there, and no module of
attacks is left out."""

from __future__ import annotations

import re

import pytest

from tests.support.source_tree import PROJECT, parse

_PAGE = (PROJECT / "docs" / "security.md").read_text(encoding="utf-8")
_NAMED = re.findall(r"`([a-z0-9_/]+/test_[a-z0-9_]+\.py)(?:::(test_\w+))?`", _PAGE)
_TESTS = PROJECT / "tests"


def _tests_of(path: str) -> set[str]:
    import ast

    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(parse(_TESTS / path)) if isinstance(node, kinds)}


@pytest.mark.parametrize(("path", "name"), [item for item in _NAMED if item[1]])
def test_a_test_that_the_page_names_is_there(path: str, name: str) -> None:
    assert (_TESTS / path).is_file()
    assert name in _tests_of(path)


def test_every_module_of_attacks_stands_on_the_page() -> None:
    modules = {
        path.relative_to(_TESTS).as_posix() for path in (_TESTS / "hostile").rglob("test_*.py")
    }
    assert modules - {path for path, _ in _NAMED} == set()


def test_every_row_of_the_page_names_a_test() -> None:
    rows = [line for line in _PAGE.splitlines() if line.startswith("| ")]
    heads = ("| attack |", "|---")
    without = [row for row in rows if not row.startswith(heads) and "::test_" not in row]
    assert len(rows) > 30
    assert without == []
