"""Names: domain words in the product, sentences in the tests, one tree of errors."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

from contracts.errors import ExitCode, FleetError
from tests.support.source_tree import (
    dotted,
    files_of_tests,
    module_name,
    parse,
    product_files,
    relative,
)

_EMPTY_WORDS = {"manager", "helper", "helpers", "util", "utils", "common", "misc", "stuff"}
_SPLIT = re.compile(r"_|(?<=[a-z0-9])(?=[A-Z])")


def _words(name: str) -> set[str]:
    return {word.lower() for word in _SPLIT.split(name)}


def _definitions(path: Path) -> list[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in ast.walk(parse(path)) if isinstance(node, kinds)]


@pytest.mark.parametrize("path", product_files(), ids=relative)
def test_a_name_says_what_the_thing_is(path: Path) -> None:
    names = [path.stem, *(node.name for node in _definitions(path))]
    assert not [name for name in names if _words(name) & _EMPTY_WORDS]


@pytest.mark.parametrize("path", files_of_tests(), ids=relative)
def test_a_test_is_named_by_a_sentence(path: Path) -> None:
    short = [
        node.name
        for node in _definitions(path)
        if node.name.startswith("test_") and len(node.name.split("_")) < 5
    ]
    assert not short, f"say what is so, in four words at least: {short}"


def test_a_test_module_is_found_by_the_runner() -> None:
    lost = [
        relative(path)
        for path in files_of_tests()
        if not path.name.startswith("test_")
        and any(node.name.startswith("test_") for node in _definitions(path))
    ]
    assert not lost


def _all_errors() -> set[type[FleetError]]:
    for path in product_files():
        if path.name not in ("warden.py", "_windows.py"):
            importlib.import_module(module_name(path))
    found: set[type[FleetError]] = set()
    pending: list[type[FleetError]] = [FleetError]
    while pending:
        error = pending.pop()
        found.add(error)
        pending.extend(error.__subclasses__())
    return found


def test_every_error_stands_in_the_one_tree_with_a_kind_of_its_own() -> None:
    errors = _all_errors()
    assert {error.__module__ for error in errors} == {"contracts.errors"}
    assert len({error.kind for error in errors}) == len(errors)


def test_every_error_is_mapped_to_an_exit_code_of_the_table() -> None:
    unmapped = [
        error.__name__
        for error in _all_errors()
        if error is not FleetError
        and (not isinstance(error.exit_code, ExitCode) or error.exit_code in (0, 1))
    ]
    assert not unmapped, "an error raised on purpose is neither a success nor our bug"


def test_the_drawing_of_the_error_tree_names_every_error() -> None:
    drawing = importlib.import_module("contracts.errors").__doc__ or ""
    assert not [error.__name__ for error in _all_errors() if error.__name__ not in drawing]


def _caught_in(package: str) -> set[str]:
    caught: set[str] = set()
    for path in product_files():
        if relative(path).partition("/")[0] == package:
            for node in ast.walk(parse(path)):
                if isinstance(node, ast.ExceptHandler) and node.type is not None:
                    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                    caught |= {dotted(kind).rpartition(".")[2] for kind in kinds}
    return caught


def test_an_exception_outside_the_tree_is_caught_in_its_own_package() -> None:
    bases = {"Exception", "BaseException", "RuntimeError", "ValueError", "OSError", "LookupError"}
    strays = [
        f"{relative(path)}: {node.name}"
        for path in product_files()
        if relative(path) != "contracts/errors.py"
        for node in _definitions(path)
        if isinstance(node, ast.ClassDef)
        and any(dotted(base) in bases for base in node.bases)
        and node.name not in _caught_in(relative(path).partition("/")[0])
    ]
    assert not strays, "raise one of contracts.errors, or translate it at the seam"
